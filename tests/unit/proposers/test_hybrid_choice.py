"""Which arm a hybrid asks: turns that end, and a bandit that follows the wins."""

import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ledger.digests import params_digest
from ledger.records import Direction, Objective
from ledger.search import FinishedTrial, History, Proposal, Proposals
from ledger.states import Reason, TrialState
from proposers.hybrid import Hybrid
from proposers.hybrid_arms import Arm
from proposers.hybrid_bandit import Bandit
from proposers.hybrid_options import HybridOptions
from proposers.hybrid_results import WINDOW, Gains, read_outcomes
from proposers.hybrid_stall import Turns
from proposers.hybrid_state import ArmState, HybridState
from proposers.protocol import Proposer
from proposers.random_search import RandomSearch
from proposers.registry import Registered
from proposers.search_space import Float, SearchSpace

SPACE: SearchSpace = {"x": Float(0.0, 1.0)}
OBJECTIVE = Objective(metric="loss", direction=Direction.MINIMIZE)
PLAIN = Registered(build=lambda setup: RandomSearch(setup.space))
PATCHER = replace(PLAIN, asks_models=True, writes_patches=True)


def arms(*registered: Registered) -> list[Arm]:
    made = registered or (PLAIN, PLAIN)
    return [
        Arm(label=label, registered=r, proposer=RandomSearch(SPACE))
        for label, r in zip("abc", made, strict=False)
    ]


def options(**given: object) -> HybridOptions:
    return HybridOptions.model_validate(given)


def trial(number: int, arm: str, value: float | None = 1.0, **facts: object) -> FinishedTrial:
    known: dict[str, Any] = {
        "number": number,
        "params": {"x": number / 10_000},
        "state": TrialState.COMPLETE if value is not None else TrialState.FAILED,
        "value": value,
        "reason": Reason.WORSE if value is not None else Reason.MALFORMED_PATCH,
        "candidate_id": f"c{number}",
        "kept": False,
        "proposer": f"hybrid/{arm}",
    }
    return FinishedTrial(**(known | facts))


def history(finished: Sequence[FinishedTrial], **facts: Any) -> History:
    known: dict[str, Any] = {
        "objective": OBJECTIVE,
        "next_number": len(finished),
        "finished": finished,
        "proposed": frozenset(params_digest(t.params) for t in finished),
    }
    return History(**(known | facts))


def fresh(count: int = 2, *, given: int = 0) -> HybridState:
    return HybridState(arms=[ArmState(given=given) for _ in range(count)])


# --- turns ---------------------------------------------------------------------------------------


def turn_after(finished: Sequence[FinishedTrial], *registered: Registered, **given: object) -> int:
    state = fresh()
    Turns(arms(*registered), options(**given)).begin(history(finished), 0, state)
    return state.turn


def test_a_turn_ends_after_so_many_trials_without_an_improvement() -> None:
    poor = [trial(n, "a") for n in range(3)]
    assert turn_after(poor, patience=4) == 0
    assert turn_after([*poor, trial(3, "a")], patience=4) == 1
    assert turn_after([*poor, trial(3, "a", kept=True)], patience=4) == 0
    # Trials of others do not count, nor do those of the operator.
    assert turn_after([*poor, trial(3, "b"), trial(4, "x")], patience=4) == 0


def test_patience_may_be_longer_than_what_the_bandit_looks_at() -> None:
    poor = [trial(n, "a") for n in range(2 * WINDOW)]
    assert turn_after(poor, patience=2 * WINDOW) == 1
    assert turn_after(poor[1:], patience=2 * WINDOW) == 0
    failed = [replace(t, state=TrialState.FAILED, reason=Reason.CRASHED) for t in poor]
    assert turn_after(failed, patience=10_000, failures=2 * WINDOW) == 1


def test_a_turn_ends_after_so_many_failures_in_a_row() -> None:
    failed = [trial(n, "a", None) for n in range(2)]
    assert turn_after(failed, failures=2) == 1
    assert turn_after([*failed, trial(2, "a")], failures=2) == 0
    lost = [replace(t, reason=Reason.ATTEMPT_LOST) for t in failed]
    assert turn_after(lost, failures=2) == 0


def test_patches_that_are_discarded_count_as_failures_and_parameters_do_not() -> None:
    discarded = [trial(n, "a") for n in range(2)]
    assert turn_after(discarded, PATCHER, PLAIN, failures=2) == 1
    assert turn_after(discarded, PLAIN, PATCHER, failures=2) == 0


def test_what_comes_of_the_same_candidate_again_counts_for_the_arm_that_writes_patches() -> None:
    again = [trial(n, "b", candidate_id="c0", reason=Reason.DUPLICATE) for n in range(2)]
    assert turn_after(again, PATCHER, PLAIN, failures=2) == 1


def test_turns_come_round_and_each_starts_afresh() -> None:
    turns, state = Turns(arms(), options(patience=2)), fresh()
    finished: list[FinishedTrial] = []
    whose = []
    for number in range(8):
        turns.begin(history(finished), 0, state)
        place = turns.choose(number, {0, 1}, state)
        whose.append(place)
        finished.append(trial(number, "ab"[place]))
    assert whose == [0, 0, 1, 1, 0, 0, 1, 1]


def test_a_turn_passes_over_an_arm_that_has_nothing_left() -> None:
    state = fresh(3)
    state.arms[0].is_done = state.arms[1].is_done = True
    turns = Turns(arms(PLAIN, PLAIN, PLAIN), options())
    turns.begin(history([]), 0, state)
    assert turns.choose(0, {2}, state) == 2
    assert state.turn == 2


# --- the bandit ----------------------------------------------------------------------------------


def chosen(finished: Sequence[FinishedTrial], times: int = 300, **given: object) -> Counter[int]:
    """How often each arm is chosen over many seeds."""
    counts: Counter[int] = Counter()
    facts = {k: given.pop(k) for k in ("noise_floor", "baseline") if k in given}
    state = fresh(given=50)
    for seed in range(times):
        bandit = Bandit(arms(), options(mode="bandit", **given))
        bandit.begin(history(finished, **facts), seed, state)
        counts[bandit.choose(len(finished), {0, 1}, state)] += 1
    return counts


def falling(count: int, winner: str) -> list[FinishedTrial]:
    """Trials in turn, of which one arm's are a little better each time."""
    found = []
    for number in range(count):
        arm = "ab"[number % 2]
        value = 10.0 - number / 10 if arm == winner else 10.5 + (number * 7 % 5) / 10
        found.append(trial(number, arm, value))
    return found


def test_each_arm_is_tried_a_few_times_first() -> None:
    bandit, state = Bandit(arms(), options(mode="bandit")), fresh()
    bandit.begin(history([]), 0, state)
    assert [bandit.choose(n, {0, 1}, state) for n in range(6)] == [0, 1] * 3


def test_most_trials_go_to_the_arm_that_wins_and_a_few_to_the_other() -> None:
    counts = chosen(falling(40, "b"), cost="trials")
    assert counts[1] > 250
    assert counts[0] > 0


def test_the_choice_follows_when_the_other_arm_becomes_the_better_one() -> None:
    early = falling(40, "a")
    late = [
        replace(t, number=40 + n, value=(t.value or 0.0) - 4.0 if t.proposer == "hybrid/b" else 9)
        for n, t in enumerate(falling(40, "b"))
    ]
    assert chosen(early, cost="trials")[0] > 250
    assert chosen([*early, *late], cost="trials")[1] > 250


def test_an_arm_whose_trials_take_long_gets_fewer() -> None:
    whose = "abba" * 10  # each is first as often as second
    even = [
        trial(n, arm, 10.0 - n / 10, wall_s=100.0 if arm == "b" else 10.0)
        for n, arm in enumerate(whose)
    ]
    assert chosen(even, cost="seconds")[0] > 250
    assert 60 < chosen(even, cost="trials")[0] < 240


def test_money_counts_beside_time() -> None:
    even = [trial(n, "ab"[n % 2], 10.0 - n / 10, wall_s=36.0) for n in range(40)]
    state = fresh(given=20)
    state.arms[0].usd = 20.0
    counts: Counter[int] = Counter()
    for seed in range(200):
        bandit = Bandit(arms(), options(mode="bandit", cost="usd", usd_per_hour=1.0))
        bandit.begin(history(even), seed, state)
        counts[bandit.choose(40, {0, 1}, state)] += 1
    assert counts[1] > 190


@pytest.mark.parametrize("value", [1e308, -1e308, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("noise", [0.0, float("nan"), 1e308])
def test_no_value_breaks_the_choice(value: float, noise: float) -> None:
    finished = [*falling(20, "a"), trial(20, "b", value), *falling(20, "a")]
    counts = chosen(finished, times=20, noise_floor=noise, cost="trials")
    assert sum(counts.values()) == 20


@pytest.mark.parametrize("value", [1.7e308, -1.7e308])
def test_no_baseline_breaks_the_choice(value: float) -> None:
    counts = chosen(falling(20, "a"), times=20, baseline=(value, value), cost="trials")
    assert sum(counts.values()) == 20


def test_gains_are_the_same_however_often_they_are_read() -> None:
    rng = random.Random(0)
    finished = [trial(n, "ab"[n % 2], rng.random()) for n in range(50)]
    kept = Gains()
    for count in (0, 1, 7, 8, 30, 50):
        kept.update(history(finished[:count], baseline=(0.9, 0.7)))
    whole = Gains()
    whole.update(history(finished, baseline=(0.9, 0.7)))
    assert kept.gains == whole.gains
    assert kept.usual == whole.usual
    assert whole.usual == pytest.approx(statistics.fmean(g for g in whole.gains if g > 0.0))
    assert sum(kept.gains) == pytest.approx(0.8 - min(t.value or 0.0 for t in finished))
    outcomes = read_outcomes(history(finished), arms(), whole.gains)
    assert [len(own) for own in outcomes] == [25, 25]
    assert outcomes[1][0].age == 0


@dataclass
class Digger:
    """Gets a step further with a chance that depends on how far the study is: a proposer that is
    good early, or late."""

    early: float
    late: float

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        number = history.next_number
        chance = self.early if number < 60 else self.late
        rng = random.Random(f"{seed}/{number}")
        best = min((float(t.params["x"]) for t in history.finished), default=1.0)
        step = 0.02 if rng.random() < chance else -rng.uniform(0.0, 0.3)
        return Proposals(items=[Proposal(params={"x": min(1.0, max(0.0, best - step))})])


def depth(proposer: Proposer, seed: int) -> float:
    """The best value after 120 trials."""
    finished: list[FinishedTrial] = []
    state: bytes | None = None
    for number in range(120):
        values = [t.value or 0.0 for t in finished]
        given = proposer.propose(
            history(finished, best=min(values, default=None)), count=1, seed=seed, state=state
        )
        state = given.state
        made = given.items[0]
        finished.append(trial(number, "", float(made.params["x"]), params=made.params))
        finished[-1] = replace(finished[-1], proposer=made.proposer)
    return min(t.value or 0.0 for t in finished)


def test_where_the_better_arm_changes_on_the_way_the_bandit_is_ahead_of_both() -> None:
    early, late = Digger(early=0.3, late=0.0), Digger(early=0.0, late=0.3)
    space_arms = [
        Arm(label=label, registered=PLAIN, proposer=arm)
        for label, arm in (("a", early), ("b", late))
    ]
    bandit = Hybrid(space_arms, SPACE, options(mode="bandit", cost="trials"))
    seeds = range(8)
    alone = min(statistics.fmean(depth(arm, seed) for seed in seeds) for arm in (early, late))
    together = statistics.fmean(depth(bandit, seed) for seed in seeds)
    # Alone either comes 60 times 0.3 times 0.02 far.
    assert alone == pytest.approx(0.64, abs=0.05)
    assert together < alone - 0.1


def test_where_one_arm_is_the_better_one_throughout_the_bandit_is_close_to_it() -> None:
    good, bad = Digger(early=0.3, late=0.3), Digger(early=0.0, late=0.0)
    both = [
        Arm(label=label, registered=PLAIN, proposer=arm)
        for label, arm in (("a", bad), ("b", good))
    ]
    bandit = Hybrid(both, SPACE, options(mode="bandit", cost="trials"))
    seeds = range(8)
    alone = statistics.fmean(1.0 - depth(good, seed) for seed in seeds)
    together = statistics.fmean(1.0 - depth(bandit, seed) for seed in seeds)
    assert together > 0.85 * alone
