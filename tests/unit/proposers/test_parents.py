"""Which candidate is changed next."""

import random
from collections import Counter
from typing import Any

import pytest

from ledger.records import Direction, Objective
from ledger.search import FinishedTrial, History, PendingTrial
from ledger.states import Reason, TrialState
from proposers.chat_options import LLMDiffOptions
from proposers.host import number_rng
from proposers.parents import best, choose_parent, is_meeting, islands, scored

FIRST = 3
"""Number of the first search trial: the baselines come before."""


def options(**changes: Any) -> LLMDiffOptions:
    endpoints = [{"url": "http://x/v1", "model": "m"}]
    return LLMDiffOptions.model_validate({"endpoints": endpoints, **changes})


def trial(place: int, value: float | None, parent: str = "base", **changes: Any) -> FinishedTrial:
    fields: dict[str, Any] = {
        "number": FIRST + place,
        "params": {},
        "state": TrialState.FAILED if value is None else TrialState.COMPLETE,
        "value": value,
        "reason": Reason.WORSE,
        "candidate_id": f"c{place}",
        "kept": False,
        "parent_id": parent,
        **changes,
    }
    return FinishedTrial(**fields)


def history(*finished: FinishedTrial, **changes: Any) -> History:
    fields: dict[str, Any] = {
        "objective": Objective(metric="score", direction=Direction.MAXIMIZE),
        "next_number": len(finished),
        "finished": finished,
        "baseline": (0.4, 0.6),
        "baseline_id": "base",
        **changes,
    }
    return History(**fields)


def chosen(told: History, number: int, **changes: Any) -> str:
    return choose_parent(told, number, options(**changes), number_rng(0, number)).candidate_id


def test_the_best_is_the_parent_and_the_baseline_while_nothing_beats_it() -> None:
    assert chosen(history(), 0, parents="best") == "base"
    assert chosen(history(trial(0, 0.3)), 1, parents="best") == "base"
    told = history(trial(0, 0.7), trial(1, 0.9), trial(2, 0.9))
    assert chosen(told, 3, parents="best") == "c1"


def test_a_smaller_score_is_better_where_the_study_minimizes() -> None:
    told = history(
        trial(0, 0.7),
        trial(1, 0.1),
        objective=Objective(metric="loss", direction=Direction.MINIMIZE),
    )
    assert chosen(told, 2, parents="best") == "c1"


@pytest.mark.parametrize(
    "unfit",
    [
        trial(0, 0.9, reason=Reason.INFEASIBLE),
        trial(0, None, reason=Reason.CRASHED),
        trial(0, float("nan"), reason=Reason.NOT_FINITE),
        trial(0, 0.9, state=TrialState.PRUNED, reason=Reason.PRUNED_MEDIAN),
        trial(0, float("inf")),
    ],
)
def test_what_has_no_good_score_is_never_a_parent(unfit: FinishedTrial) -> None:
    for number in range(20):
        for rule in ("best", "tournament", "islands"):
            assert chosen(history(unfit), number, parents=rule) == "base"


def test_a_tournament_prefers_the_better_and_passes_nobody_over_for_ever() -> None:
    told = history(*(trial(n, 0.5 + n / 100) for n in range(1, 10)))
    drawn = Counter(
        choose_parent(
            told, 9, options(parents="tournament", tournament_size=2), random.Random(seed)
        ).candidate_id
        for seed in range(500)
    )
    assert drawn["c9"] > drawn["c5"] > drawn["c1"] > 0
    everyone = options(parents="tournament", tournament_size=100)
    assert choose_parent(told, 9, everyone, random.Random(0)).candidate_id == "c9"


def test_a_choice_depends_on_the_seed_and_the_number_alone() -> None:
    told = history(*(trial(n, n / 10) for n in range(8)))
    for rule in ("tournament", "islands"):
        assert [chosen(told, n, parents=rule) for n in range(8, 30)] == [
            chosen(told, n, parents=rule) for n in range(8, 30)
        ]


def test_candidates_live_on_the_island_of_their_parent() -> None:
    told = history(
        trial(1, 0.6),
        trial(0, 0.7),  # finished later than its successor
        trial(2, 0.8, parent="c0"),
        trial(3, 0.5, parent="c1"),
        pending=(PendingTrial(number=FIRST + 4, params={}, candidate_id="c4"),),
    )
    found = islands(told, options(islands=2, migrate_every=1000))
    assert found == {"c0": 0, "c1": 1, "c2": 0, "c3": 1}


def test_each_turn_goes_on_with_its_own_island_until_they_meet() -> None:
    settings = {"parents": "islands", "islands": 2, "migrate_every": 3, "tournament_size": 100}
    told = history(trial(0, 0.6), trial(1, 0.9), trial(2, 0.7, "c0"), trial(3, 0.8, "c1"))
    assert [chosen(told, n, **settings) for n in (6, 7)] == ["c2", "c1"]
    assert is_meeting(4, options(**settings))
    assert chosen(told, 4, **settings) == "c1"  # island 0 takes the best of all
    moved = history(*told.finished, trial(4, 0.95, "c1"))
    assert islands(moved, options(**settings))["c4"] == 0
    assert chosen(moved, 6, **settings) == "c4"


def test_an_island_without_anyone_starts_from_the_baseline() -> None:
    told = history(trial(0, 0.9))
    assert chosen(told, 1, parents="islands", islands=4) == "base"


def test_islands_keep_a_long_study_off_one_hill() -> None:
    """A model whose children are always a little better than their parent: with `best` all
    descend from one first child, with islands from several."""

    def roots(rule: str) -> int:
        finished: list[FinishedTrial] = []
        root: dict[str, str] = {}
        for number in range(40):
            told = history(*finished)
            parent = choose_parent(
                told, number, options(parents=rule, migrate_every=1000), number_rng(1, number)
            )
            child = trial(number, parent.merit + 0.01, parent.candidate_id)
            root[child.candidate_id] = root.get(parent.candidate_id, child.candidate_id)
            finished.append(child)
        return len({root[f.candidate_id] for f in finished[-8:]})

    assert roots("best") == 1
    assert roots("islands") == 4


def test_the_history_names_every_possible_parent_once_per_trial() -> None:
    known = scored(history(trial(0, 0.5), trial(1, None)))
    assert [s.candidate_id for s in known] == ["base", "c0"]
    assert best(known).candidate_id == "base"  # equal scores: the older one
