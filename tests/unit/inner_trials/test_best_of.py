"""Choosing the best of N answers: ties, limits, what is never chosen, and the written data set."""

import json
from pathlib import Path

import pytest

from inner_trials import best_of
from inner_trials.best_of import Judged
from inner_trials.data import DataError
from inner_trials.prompts import Prompt

PROMPT = Prompt("2+2?", {"answer": "4"}, "train.jsonl, line 1")
CHAT = Prompt([{"role": "user", "content": "2+2?"}], {}, "train.jsonl, line 2")


def answer(text: str, reward: float, *, is_ended: bool = True) -> Judged:
    return Judged(text, is_ended, reward)


def test_the_first_of_equally_good_answers_is_the_best() -> None:
    judged = [[answer("5", 0.0), answer("4", 1.0), answer(" 4", 1.0)]]
    rows = best_of.choose("sft", [PROMPT], judged, 1.0)
    assert rows == [{"prompt": "2+2?", "completion": "4"}]


def test_a_pair_is_the_best_against_the_worst_and_never_two_equals() -> None:
    spread = [answer("5", 0.2), answer("4", 1.0), answer("6", 0.1)]
    rows = best_of.choose("dpo", [PROMPT], [spread], 0.0)
    assert rows == [{"prompt": "2+2?", "chosen": "4", "rejected": "6"}]
    assert best_of.choose("dpo", [PROMPT], [[answer("4", 1.0), answer("4.0", 1.0)]], 0.0) == []
    assert best_of.choose("dpo", [PROMPT], [[answer("4", 1.0), answer("4", 0.0)]], 0.0) == []


@pytest.mark.parametrize(
    "unfit",
    [
        answer("4", 9.0, is_ended=False),
        answer("", 9.0),
        answer("4", float("nan")),
        answer("4", float("inf")),
    ],
)
def test_a_cut_off_an_empty_and_an_unjudged_answer_are_never_chosen(unfit: Judged) -> None:
    rows = best_of.choose("sft", [PROMPT], [[unfit, answer("5", 0.5)]], 0.0)
    assert rows == [{"prompt": "2+2?", "completion": "5"}]
    assert best_of.choose("sft", [PROMPT], [[unfit]], float("-inf")) == []


def test_messages_are_answered_by_messages() -> None:
    rows = best_of.choose("sft", [CHAT], [[answer("4", 1.0)]], 0.0)
    assert rows[0]["completion"] == [{"role": "assistant", "content": "4"}]


def test_nothing_good_enough_is_refused_with_what_to_change() -> None:
    with pytest.raises(DataError, match="of 3 prompts with 4 answers each none gave a row"):
        best_of.check_any([], 3, 4, 0.5)


def test_what_sampling_found_is_counted_by_hand() -> None:
    judged = [
        [answer("a", 1.0), answer("b", 0.0, is_ended=False)],
        [answer("c", 0.5), answer("d", 0.5)],
    ]
    assert best_of.statistics(judged, 1) == {
        "sampling/reward_mean": 0.5,
        "sampling/reward_best": 0.75,
        "sampling/ended_share": 0.75,
        "sampling/kept_share": 0.5,
        "sampling/zero_spread_share": 0.5,
    }


def test_the_same_rows_and_lineage_are_the_same_bytes(tmp_path: Path) -> None:
    judged = [[answer("4", 1.0), answer("5", 0.0)]]
    rows = best_of.choose("sft", [PROMPT], judged, 0.0)
    for name in ("a", "b"):
        best_of.write(tmp_path / name, rows, [PROMPT], judged, {"seed": 3})
    files = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in "ab"]
    assert files[0] == files[1]
    lineage = json.loads(files[0][best_of.LINEAGE])
    assert (lineage["seed"], lineage["rows"]) == (3, 1)
    assert len(lineage["rows_sha256"]) == 64
