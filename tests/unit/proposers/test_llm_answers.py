"""What is taken from a model's answer, and what is told back to it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.states import Reason
from proposers.llm_answers import (
    Unreadable,
    read_params,
    read_proposals,
    split_patch,
    without_thoughts,
)
from proposers.patches import PatchRefused, apply_patch
from proposers.search_space import Categorical, Float, Int, SearchSpace

SPACE: SearchSpace = {
    "lr": Float(0.0, 1.0),
    "units": Int(1, 8),
    "act": Categorical(("tanh", "8", True)),
    "slope": Float(0.0, 1.0, when=(("act", ("8",)),)),
}
GOOD = {"lr": 0.5, "units": 4, "act": "tanh"}
ONE = json.dumps({"proposals": [{"rationale": "because", "params": GOOD}]})


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        f"```json\n{ONE}\n```",
        f"Here you are: {ONE} I hope it helps {{}}.",
        f"<think>what about {{x}} or {{'proposals': 1}}?</think>\n{ONE}",
        f'{{"thoughts": "first"}} {ONE}',
    ],
)
def test_a_json_object_is_found_among_words(text: str) -> None:
    assert read_proposals(text) == [(GOOD, "because")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no JSON object in it"),
        ("[1, 2]", "there is no JSON object in it"),
        ('{"proposals": [', "there is no JSON object in it"),
        ("{" * 100_000, "there is no JSON object in it"),
        (f'{{"proposals": [{{"params": {{"lr": {"9" * 5000}}}}}]}}', "there is no JSON object"),
        ('{"proposals": {}}', 'the key "proposals" with a list is missing'),
        ('{"answers": []}', 'the key "proposals" with a list is missing'),
        ('{"proposals": [{"lr": 1}]}', 'proposal 1 has no object "params"'),
        ('{"proposals": [{"params": {"lr": 1, "lr": 2}}]}', "the key 'lr' is there twice"),
        ('{"proposals": [{"params": {"lr": NaN}}]}', "NaN is no JSON number"),
        ('{"proposals": [{"params": {"lr": -Infinity}}]}', "-Infinity is no JSON number"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, said: str) -> None:
    with pytest.raises(Unreadable, match="^" + said.replace("(", r"\(")):
        read_proposals(text)


def test_an_integer_is_taken_for_a_float_range_and_nothing_else_is_converted() -> None:
    assert read_params(SPACE, {**GOOD, "lr": 1}) == {**GOOD, "lr": 1.0}
    assert type(read_params(SPACE, {**GOOD, "lr": 1})["lr"]) is float


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lr": "0.5"}, "lr is text: write the number without quotes"),
        ({"lr": 2}, "lr: 2.0 is outside the floats from 0.0 to 1.0"),
        ({"lr": 10**400}, "is outside the floats"),
        ({"lr": 1e999}, "lr: inf is outside"),
        ({"lr": True}, "lr: True is outside"),
        ({"units": 4.0}, "units: 4.0 is outside the integers from 1 to 8"),
        ({"units": 2.5}, "units: 2.5 is outside"),
        ({"act": 8}, "act: 8 is outside the choices 'tanh', '8', True"),
        ({"act": 1}, "act: 1 is outside"),
        ({"act": None}, "act is null: write a number, text, true or false"),
        ({"act": ["tanh"]}, "act is a list"),
        ({"seed": 7}, "seed is not a parameter of the space"),
        ({"slope": 0.5}, "slope exists only when act is '8'"),
        ({"act": "8"}, "slope is missing"),
    ],
)
def test_a_point_outside_the_space_is_refused_with_every_fault(
    change: dict[str, Any], said: str
) -> None:
    with pytest.raises(Unreadable) as refused:
        read_params(SPACE, {**GOOD, **change})
    assert said in str(refused.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_no_document_breaks_the_reader(document: object) -> None:
    try:
        for params, _ in read_proposals(json.dumps(document)):
            read_params(SPACE, params)
    except Unreadable:
        pass
    else:
        assert isinstance(document, dict)


BLOCK = "train.py\n<<<<<<< SEARCH\nA = 1\n=======\nA = 2\n>>>>>>> REPLACE"
DIFF = "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-A = 1\n+A = 2"


@pytest.mark.parametrize(
    "text",
    [
        f"Because.\n\n{BLOCK}",
        f"Because.\n\n{BLOCK}\n\nIt will help \U0001f680\ufe0f!",
        f"Because.\n\n```\n{BLOCK}\n```\nDone.",
        f"Because.\n\n```diff\n{DIFF}\n```\nDone.\n- a point",
        f"Because.\n{DIFF}",
        f"<think>{BLOCK.replace('2', '3')}</think>Because.\n{DIFF}\n",
    ],
)
def test_a_patch_is_taken_out_of_the_words_around_it(text: str) -> None:
    words, patch = split_patch(text, ["train.py"])
    assert words == "Because."
    changed = apply_patch({"train.py": "A = 1\n"}, patch, mutable=["train.py"])
    assert changed == {"train.py": "A = 2\n"}


@given(st.text())
def test_words_without_a_patch_are_a_malformed_one(text: str) -> None:
    _, patch = split_patch(text, ["train.py"])
    with pytest.raises(PatchRefused) as refused:
        apply_patch({"train.py": "A = 1\n"}, patch, mutable=["train.py"])
    assert refused.value.reason in (Reason.MALFORMED_PATCH, Reason.NO_CHANGE)


def test_thoughts_are_taken_off_once() -> None:
    assert without_thoughts("<think>a</think>b<think>c</think>") == "b<think>c</think>"
