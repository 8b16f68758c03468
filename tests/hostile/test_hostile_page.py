"""docs/hostile.md says what the corpus has and what was measured."""

import json

from tests.hostile import table
from tests.hostile.corpus.everything import ATTACKS
from tests.hostile.corpus_study import SANDBOXES

PAGE = table.ROOT / "docs" / "hostile.md"
FIGURES = json.loads(PAGE.with_suffix(".json").read_bytes())


def test_the_page_is_what_its_figures_give() -> None:
    assert PAGE.read_text(encoding="utf-8") == table.page(FIGURES)


def test_every_attack_has_a_published_verdict_on_every_target() -> None:
    assert FIGURES["targets"].keys() == set(table.TARGETS)
    for name, target in FIGURES["targets"].items():
        assert target["verdicts"].keys() == ATTACKS.keys(), name


def test_the_sandboxes_contain_all_of_it() -> None:
    for name in SANDBOXES:
        figures = FIGURES["targets"][name]
        assert (figures["contained"], figures["neighbours_and_host"]) == (len(ATTACKS), [])
