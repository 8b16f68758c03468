"""Patches of a model: what is understood, what is refused and with which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.states import Reason
from proposers.patches import PATCH_BYTES, PatchRefused, apply_patch

TRAIN = "import torch\n\ndef step(x):\n    lr = 0.1\n    report(x)\n    return x\n"
FILES = {"train.py": TRAIN, "lib/model.py": "SIZE = 4\r\nDEPTH = 2\r\n"}
DIFF = """\
--- a/train.py
+++ b/train.py
@@ -3,3 +3,3 @@
 def step(x):
-    lr = 0.1
+    lr = 0.2
     report(x)
"""


def apply(patch: str, required: tuple[str, ...] = ()) -> dict[str, str]:
    return apply_patch(FILES, patch, mutable=tuple(FILES), required_calls=required)


def refusal(patch: str, required: tuple[str, ...] = ()) -> str:
    with pytest.raises(PatchRefused) as refused:
        apply(patch, required)
    assert refused.value.reason is Reason.MALFORMED_PATCH
    return str(refused.value)


def test_a_diff_changes_its_lines_and_no_other_byte() -> None:
    assert apply(DIFF) == {**FILES, "train.py": TRAIN.replace("0.1", "0.2")}


def test_wrong_counts_and_line_numbers_are_put_right_by_the_lines_themselves() -> None:
    for header in ("@@ -30,99 +1,1 @@", "@@ -1 +1 @@", "@@ @@", "@@ -3,3 +3,3 @@ def step(x):"):
        patch = DIFF.replace("@@ -3,3 +3,3 @@", header)
        assert apply(patch)["train.py"] == TRAIN.replace("0.1", "0.2")


def test_prose_and_a_fence_around_a_diff_are_passed_over() -> None:
    patch = f"I would raise the rate.\n\n```diff\n{DIFF}```\nThat should help.\n"
    assert apply(patch)["train.py"] == TRAIN.replace("0.1", "0.2")


def test_a_blank_context_line_may_lack_its_space() -> None:
    patch = "--- train.py\n+++ train.py\n@@ -1,3 +1,3 @@\n"
    patch += "-import torch\n+import numpy\n\n def step(x):\n"
    assert apply(patch)["train.py"].startswith("import numpy\n\ndef step")


def test_trailing_white_space_of_context_does_not_matter_and_stays_as_it_was() -> None:
    files = {"a.py": "x = 1   \ny = 2\n"}
    patch = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n"
    assert apply_patch(files, patch, mutable=["a.py"]) == {"a.py": "x = 1   \ny = 3\n"}


def test_line_ends_stay_what_they_were() -> None:
    patch = "--- lib/model.py\n+++ lib/model.py\n@@ -1,2 +1,3 @@\n"
    patch += " SIZE = 4\n-DEPTH = 2\n+DEPTH = 3\n+WIDTH = 5\n"
    assert apply(patch)["lib/model.py"] == "SIZE = 4\r\nDEPTH = 3\r\nWIDTH = 5\r\n"


def test_a_file_without_a_last_newline_keeps_having_none() -> None:
    patch = "--- a.py\n+++ a.py\n@@ -1 +1,2 @@\n x = 1\n+y = 2\n"
    assert apply_patch({"a.py": "x = 1"}, patch, mutable=["a.py"]) == {"a.py": "x = 1\ny = 2"}


def test_blocks_are_understood_beside_diffs() -> None:
    patch = (
        "**train.py**\n```python\n<<<<<<< SEARCH\n    lr = 0.1\n=======\n    lr = 0.3\n"
        ">>>>>>> REPLACE\n```\n"
    )
    assert apply(patch)["train.py"] == TRAIN.replace("0.1", "0.3")


def test_several_files_and_hunks_are_applied_together() -> None:
    more = "--- a/lib/model.py\n+++ b/lib/model.py\n@@ -1 +1 @@\n-SIZE = 4\n+SIZE = 8\n"
    changed = apply(DIFF + "@@ -6,1 +6,1 @@\n-    return x\n+    return -x\n" + more)
    assert "return -x" in changed["train.py"]
    assert "lr = 0.2" in changed["train.py"]
    assert changed["lib/model.py"] == "SIZE = 8\r\nDEPTH = 2\r\n"


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ("", "there is no patch in it"),
        ("I think we should raise the rate.", "there is no patch in it"),
        (DIFF.replace("train.py", "evaluate.py"), "'evaluate.py' is no file that may be changed"),
        (DIFF.replace("train.py", "../train.py"), "'../train.py' is no file that may be changed"),
        (
            DIFF.replace("a/train.py", "/etc/passwd").replace("b/train.py", "/etc/passwd"),
            "no file",
        ),
        (DIFF.replace("a/train.py", '"a/train.py"'), "is quoted"),
        (DIFF.replace("+++ b/train.py", "+++ b/lib/model.py"), "it renames train.py"),
        (DIFF.replace("--- a/train.py", "--- /dev/null"), "creates or deletes"),
        (DIFF.replace("+++ b/train.py", "+++ /dev/null"), "creates or deletes"),
        ("new file mode 100644\n" + DIFF, "it creates a file"),
        ("old mode 100644\nnew mode 100755\n" + DIFF, "it changes a mode"),
        ("rename from train.py\nrename to x.py\n" + DIFF, "it renames a file"),
        ("GIT binary patch\nliteral 3\n", "it is binary"),
        (DIFF.replace(" def step(x):", " def walk(x):"), "are not in train.py; copy them"),
        (DIFF.replace("-    lr = 0.1\n+    lr = 0.2\n", "     lr = 0.1\n"), "changes nothing"),
        ("@@ -1 +1 @@\n-import torch\n+import os\n", "says of no file"),
        ("<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n", "says of no file"),
        ("train.py\n<<<<<<< SEARCH\nx\n=======\ny\n", "has no >>>>>>> REPLACE; close it"),
        ("train.py\n<<<<<<< SEARCH\n\n=======\ny\n>>>>>>> REPLACE\n", "searches for nothing"),
        (DIFF.replace("lr = 0.2", "lr = 0.2 # \u202e"), "line 6 holds U+202E"),
        (DIFF.replace("lr = 0.2", "lr\u200b = 0.2"), "line 6 holds U+200B"),
        (DIFF.replace("lr = 0.2", "lr = 0.2\x1b[2J"), "line 6 holds U+001B"),
        (DIFF.replace("lr = 0.2", "lr = 0.2\x00"), "line 6 holds U+0000"),
        (DIFF.replace("lr = 0.2", "lr = ("), "train.py is no Python any more"),
        (DIFF + DIFF.replace("0.2", "0.3"), "two hunks change line"),
        ("x" * (PATCH_BYTES + 1), "at most 262144; change less at once"),
        (DIFF.replace("lr = 0.2", "lr = '" + "\ud800" + "'"), "U+D800"),
    ],
)
def test_what_is_no_patch_of_a_mutable_file_is_refused_with_what_to_write(
    patch: str, says: str
) -> None:
    assert says in refusal(patch)


def test_lines_that_are_there_twice_need_more_context() -> None:
    files = {"a.py": "x = 1\ny = 2\nx = 1\n"}
    patch = "--- a.py\n+++ a.py\n@@ -9 +9 @@\n-x = 1\n+x = 3\n"
    with pytest.raises(PatchRefused, match=r"are in a\.py 2 times; give more lines"):
        apply_patch(files, patch, mutable=["a.py"])


def test_a_required_call_may_not_go() -> None:
    patch = DIFF.replace("     report(x)\n", "-    report(x)\n")
    assert "the call report(…) is gone" in refusal(patch, required=("report",))
    assert "report" not in apply(patch)["train.py"]


def test_a_required_call_that_was_never_made_holds_nothing_up() -> None:
    assert apply(DIFF, required=("save",))["train.py"] != TRAIN


def test_a_patch_that_changes_nothing_says_so() -> None:
    patch = DIFF.replace("+    lr = 0.2", "+    lr = 0.1")
    with pytest.raises(PatchRefused) as refused:
        apply(patch)
    assert refused.value.reason is Reason.NO_CHANGE


@given(st.text(max_size=400))
def test_any_text_is_applied_or_refused_and_breaks_nothing(text: str) -> None:
    before = dict(FILES)
    try:
        changed = apply(text)
    except PatchRefused:
        return
    finally:
        assert before == FILES
    assert set(changed) == set(FILES)


@given(st.lists(st.sampled_from(["a", "b", "", "  c", "d\t"]), min_size=3, max_size=12), st.data())
def test_a_diff_made_by_difflib_gives_the_file_it_was_made_for(
    lines: list[str], data: st.DataObject
) -> None:
    import difflib

    new = list(lines)
    place = data.draw(st.integers(0, len(new) - 1))
    new[place : place + 1] = data.draw(
        st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=3)
    )
    before, after = "".join(f"{x}\n" for x in lines), "".join(f"{x}\n" for x in new)
    patch = "".join(
        difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/t", "b/t")
    )
    assert apply_patch({"t": before}, patch, mutable=["t"]) == {"t": after}
