"""No hostile patch is applied, and refusing one says why in words that are safe to print."""

import pytest

from ledger.states import Reason
from proposers.patches import PatchRefused, apply_patch
from tests.hostile.corpus.patches import FILES, MUTABLE, PATCHES, REQUIRED, HostilePatch


@pytest.mark.parametrize("patch", PATCHES, ids=lambda p: p.name)
def test_a_hostile_patch_is_refused_before_anything_runs(patch: HostilePatch) -> None:
    with pytest.raises(PatchRefused) as refused:
        apply_patch(FILES, patch.text, mutable=[MUTABLE], required_calls=REQUIRED)
    assert refused.value.reason in (Reason.MALFORMED_PATCH, Reason.NO_CHANGE)
    assert len(str(refused.value)) < 1000
    assert str(refused.value).isprintable()


def test_the_files_that_patches_are_tried_on_take_an_honest_one() -> None:
    text = f"--- a/{MUTABLE}\n+++ b/{MUTABLE}\n@@ -3,1 +3,1 @@\n-rate = 0.1\n+rate = 0.2\n"
    changed = apply_patch(FILES, text, mutable=[MUTABLE], required_calls=REQUIRED)
    assert changed == {MUTABLE: FILES[MUTABLE].replace("0.1", "0.2")}
