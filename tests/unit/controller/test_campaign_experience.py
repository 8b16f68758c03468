"""What is kept of what came in, on which side it is, and that no held-out prompt is trained on."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.campaigns.records import NoConsent, Record, read_record
from controller.campaigns.training import HeldOut, check_training_set
from controller.decisions.campaigns import is_held_out, prompt_digest
from inner_trials.contamination import prompt_of
from inner_trials.data import DataError
from ledger.errors import Conflict

CONSENT = {"given": True, "by": "user 1", "at": "2026-11-30T10:00:00+00:00"}
GOOD = {"prompt": "add 1", "completion": "2", "answer": "2", "consent": CONSENT}


def read(**changes: Any) -> Record:
    return read_record({**GOOD, **changes}, "line 1")


def test_a_record_is_a_row_with_what_is_known_of_it() -> None:
    found = read(reward=1, rewards={"a": 0.5}, policy="adder@1", source="web", ended=False)
    assert found.row == {"prompt": "add 1", "completion": "2", "answer": "2"}
    assert (found.reward, found.rewards, found.policy) == (1.0, {"a": 0.5}, "adder@1")
    assert (found.consent_by, found.consent_at) == ("user 1", "2026-11-30T10:00:00+00:00")
    assert (found.source, found.ended) == ("web", False)
    tokens = read(prompt_tokens=[1, 2], completion_tokens=[3], logprobs=[-0.5])
    assert (tokens.prompt_tokens, tokens.completion_tokens, tokens.logprobs) == (
        [1, 2],
        [3],
        [-0.5],
    )


NO = [
    None,
    True,
    False,
    "yes",
    [],
    {},
    {"given": True},
    {**CONSENT, "given": False},
    {**CONSENT, "given": 1},
    {**CONSENT, "given": "true"},
    {**CONSENT, "by": ""},
    {**CONSENT, "by": "  "},
    {**CONSENT, "by": 7},
    {**CONSENT, "by": "x" * 201},
    {**CONSENT, "at": "yesterday"},
    {**CONSENT, "at": "2026-11-30T10:00:00"},
    {**CONSENT, "at": 1764500000},
]


@pytest.mark.parametrize("consent", NO)
def test_anything_but_a_clear_yes_with_who_and_when_is_no_consent(consent: object) -> None:
    with pytest.raises(NoConsent):
        read(consent=consent)
    with pytest.raises(NoConsent):
        read_record({"prompt": 7, "consent": consent}, "line 1")


def test_a_record_that_says_nothing_of_consent_has_none() -> None:
    with pytest.raises(NoConsent):
        read_record({k: v for k, v in GOOD.items() if k != "consent"}, "line 1")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt": 7}, "prompt"),
    ({"completion": ""}, "completion is empty"),
    ({"completion": [{"role": "user"}]}, "completion"),
    ({"reward": "much"}, "line 1: reward must be a finite number"),
    ({"reward": True}, "reward"),
    ({"reward": 10**400}, "reward"),
    ({"reward": float("nan")}, "reward|finite"),
    ({"rewards": [1]}, "rewards must be an object"),
    ({"rewards": {"a": "b"}}, "rewards.a"),
    ({"ended": "no"}, "ended must be true or false"),
    ({"source": 5}, "source must be a text"),
    ({"policy": "x" * 201}, "policy must be a text"),
    ({"prompt_tokens": [-1]}, "prompt_tokens"),
    ({"completion_tokens": [1.5]}, "completion_tokens"),
    ({"logprobs": [0.1]}, "logprobs must have one number for each completion token"),
    ({"completion_tokens": [1, 2], "logprobs": [0.1]}, "logprobs"),
    ({"completion_tokens": [1], "logprobs": [None]}, "logprobs"),
    ({"more": float("inf")}, "not finite"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG)
def test_a_wrong_field_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(**changes)


def test_the_same_record_again_is_the_same_and_another_day_another() -> None:
    assert read().digest == read().digest
    later = {**CONSENT, "at": "2026-12-01T10:00:00+00:00"}
    assert read().digest != read(consent=later).digest


# --- the split ---------------------------------------------------------------------------------

PROMPTS = st.sampled_from(["add 1", "Add  1", "ADD 1\n", "add 2", "sub 3", "  sub   3 ", "mul 4"])
RECORDS = st.lists(st.tuples(PROMPTS, st.text(min_size=1, max_size=5)), max_size=40)


@given(records=RECORDS, share=st.floats(0.05, 0.95))
def test_all_records_of_one_prompt_are_on_one_side(
    records: list[tuple[str, str]], share: float
) -> None:
    """However its letters and spaces are written, and however many there are."""
    sides: dict[str, set[bool]] = {}
    for prompt, completion in records:
        found = read(prompt=prompt, completion=completion)
        normal = " ".join(prompt.lower().split())
        sides.setdefault(normal, set()).add(is_held_out(found.prompt_revision, share))
    assert all(len(side) == 1 for side in sides.values())


@given(text=st.text(min_size=1, max_size=20))
def test_a_text_and_a_chat_that_ask_the_same_are_on_one_side(text: str) -> None:
    chat = [{"role": "user", "content": text}]
    answer = [{"role": "assistant", "content": "2"}]
    assert (
        read(prompt=chat, completion=answer).prompt_revision == read(prompt=text).prompt_revision
    )


def test_a_training_set_with_a_held_out_prompt_is_refused_by_its_digest(tmp_path: Path) -> None:
    rows = [{"prompt": f"add {i}", "completion": "x"} for i in range(20)]
    digests = [prompt_digest(prompt_of(row)) for row in rows]
    place = tmp_path / "train"
    place.mkdir()
    (place / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert check_training_set(place, HeldOut(1e-9, frozenset())) == 20
    with pytest.raises(Conflict, match=f"a.jsonl, line 8: prompt {digests[7]} is held out"):
        check_training_set(place, HeldOut(1e-9, frozenset({digests[7]})))
    share = 0.5
    first = next(digest for digest in digests if is_held_out(digest, share))
    with pytest.raises(Conflict, match=first):
        check_training_set(place, HeldOut(share, frozenset()))
