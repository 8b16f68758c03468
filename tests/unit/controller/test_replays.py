"""The gate: what it asks for, when it stops, what it concludes."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.decisions.families import (
    Gate,
    GateVerdict,
    Guard,
    HoldoutRun,
    Member,
    NeedRuns,
    ReplayRun,
    RunRequest,
    Stage,
)
from controller.decisions.profiles import (
    QUICK,
    THOROUGH,
    GateProfile,
    gate_runs_bounds,
)
from controller.decisions.replays import next_gate_step
from evaluator.statistics import permutation_p, welch
from ledger.digests import canonical_json
from ledger.records import Direction, Split
from ledger.states import FamilyState, Reason

UP, DOWN = Direction.MAXIMIZE, Direction.MINIMIZE
A, B = Split.HOLDOUT_A, Split.HOLDOUT_B
SMALL = GateProfile(name="small", m=2, k1=2, k2=4, n0=5, n_new=3, n_old=2)

Score = Callable[[RunRequest], float]


def pool(*values: float, guard: float | None = None) -> list[HoldoutRun]:
    guards = {} if guard is None else {"format_ok": guard}
    return [HoldoutRun(a=v, b=v, guards=guards) for v in values]


BASE = pool(0.50, 0.51, 0.49, 0.52, 0.48)


def gate(**changes: object) -> Gate:
    settings: dict[str, object] = {
        "profile": SMALL,
        "direction": UP,
        "members": (
            Member(candidate="good", screening=0.7),
            Member(candidate="other", screening=0.6),
        ),
        "incumbent": "base",
        "pool": BASE,
    }
    return Gate(**(settings | changes))  # type: ignore[arg-type]


def jitter(request: RunRequest) -> float:
    return ((request.index * 7919) % 13 - 6) / 1000


def by_candidate(means: Mapping[str, float]) -> Score:
    return lambda request: means[request.candidate] + jitter(request)


GOOD = by_candidate({"good": 0.7, "other": 0.55, "base": 0.5})


def measured(request: RunRequest, score: Score, guard: float | None = None) -> ReplayRun:
    value = score(request)
    return ReplayRun(
        candidate=request.candidate,
        stage=request.stage,
        index=request.index,
        a=value if A in request.splits else None,
        b=value if B in request.splits else None,
        guards={} if guard is None else {"format_ok": guard},
    )


def failed(request: RunRequest) -> ReplayRun:
    return ReplayRun(
        candidate=request.candidate, stage=request.stage, index=request.index, failed=True
    )


def play(
    family: Gate, run: Callable[[RunRequest], ReplayRun]
) -> tuple[GateVerdict, list[ReplayRun]]:
    runs: list[ReplayRun] = []
    for _ in range(20):
        step = next_gate_step(family, runs)
        if isinstance(step, GateVerdict):
            return step, runs
        runs += [run(request) for request in step.requests]
    raise AssertionError("the gate never decided")


def play_scores(family: Gate, score: Score) -> tuple[GateVerdict, list[ReplayRun]]:
    return play(family, lambda request: measured(request, score))


def asked(family: Gate, runs: Sequence[ReplayRun]) -> list[RunRequest]:
    step = next_gate_step(family, runs)
    return list(step.requests) if isinstance(step, NeedRuns) else []


# --- the way through ---------------------------------------------------------------------------


def test_a_really_better_candidate_passes_with_the_confirmed_gain() -> None:
    verdict, runs = play_scores(gate(), GOOD)
    assert (verdict.state, verdict.reason, verdict.best) == (
        FamilyState.PASSED,
        Reason.PASSED,
        "good",
    )
    stages = [r.stage for r in runs]
    assert [stages.count(s) for s in (Stage.STAGE_1, Stage.STAGE_2, Stage.CONFIRM)] == [4, 4, 5]
    new = [r.a for r in runs if r.stage is Stage.CONFIRM and r.candidate == "good"]
    old = [r.a for r in runs if r.stage is Stage.CONFIRM and r.candidate == "base"]
    expected = welch([v for v in new if v is not None], [v for v in old if v is not None])
    assert verdict.evidence["gain"] == pytest.approx(expected.difference)
    interval = expected.interval()
    assert verdict.evidence["ci95"] == pytest.approx([interval.low, interval.high])


def test_each_stage_sees_only_its_own_half_of_the_holdout() -> None:
    _, runs = play_scores(gate(), GOOD)
    for run in runs:
        scored = (run.a is not None, run.b is not None)
        assert (
            scored
            == {
                Stage.STAGE_1: (True, False),
                Stage.STAGE_2: (False, True),
                Stage.CONFIRM: (True, True),
            }[run.stage]
        )


def test_every_run_of_a_family_has_an_index_of_its_own() -> None:
    _, runs = play_scores(gate(pool=BASE[:3]), GOOD)
    indices = [r.index for r in runs]
    assert len(indices) == len(set(indices)) == 15


def test_the_evidence_fits_into_the_ledger() -> None:
    verdict, _ = play_scores(gate(guards=[Guard(metric="format_ok", max_drop=0.1)]), GOOD)
    assert json.loads(canonical_json(verdict.evidence))["best"] == "good"


def test_the_test_uses_stage_two_and_the_pool_on_half_b_only() -> None:
    pooled = [HoldoutRun(a=0.1, b=v) for v in (0.5, 0.52, 0.48, 0.51, 0.49)]
    verdict, runs = play_scores(gate(pool=pooled), GOOD)
    x = [r.b for r in runs if r.stage is Stage.STAGE_2]
    values = [v for v in x if v is not None]
    y = [r.b for r in pooled]
    assert verdict.evidence["p"] == max(permutation_p(values, y), welch(values, y).p_greater)


def test_the_best_is_chosen_by_its_replays_and_its_screening_together() -> None:
    even = by_candidate({"good": 0.6, "other": 0.6, "base": 0.5})
    verdict, _ = play_scores(gate(), even)
    assert verdict.best == "good"
    ahead = by_candidate({"good": 0.6, "other": 0.66, "base": 0.5})
    verdict, _ = play_scores(gate(), ahead)
    assert verdict.best == "other"


# --- stopping early ----------------------------------------------------------------------------


def test_a_lucky_candidate_costs_stage_one_only() -> None:
    verdict, runs = play_scores(gate(), by_candidate({"good": 0.49, "other": 0.48, "base": 0.5}))
    assert (verdict.state, verdict.reason) == (FamilyState.REFUSED, Reason.STAGE1_FUTILITY)
    assert len(runs) == gate_runs_bounds(SMALL)[0]


def test_a_mean_exactly_at_the_bar_is_not_above_it() -> None:
    flat = pool(0.1 + 0.2, 0.3, 0.3, 0.3, 0.3)
    verdict, _ = play_scores(gate(pool=flat), lambda _: 0.3)
    assert verdict.reason is Reason.STAGE1_FUTILITY


def test_half_of_stage_two_is_enough_to_give_up() -> None:
    def fades(request: RunRequest) -> float:
        return 0.4 if request.stage is Stage.STAGE_2 else GOOD(request)

    verdict, runs = play_scores(gate(), fades)
    assert verdict.reason is Reason.INTERIM_FUTILITY
    assert sum(r.stage is Stage.STAGE_2 for r in runs) == SMALL.k2 // 2


def test_a_difference_within_the_noise_is_not_significant() -> None:
    noisy = pool(0.2, 0.8, 0.5, 0.3, 0.7)
    verdict, _ = play_scores(gate(pool=noisy), by_candidate({"good": 0.55, "other": 0.1}))
    assert verdict.reason is Reason.NOT_SIGNIFICANT
    assert float(str(verdict.evidence["p"])) > 0.05


def test_a_gain_that_fresh_runs_do_not_show_is_not_confirmed() -> None:
    flat = by_candidate({"good": 0.45, "other": 0.45, "base": 0.5})

    def luck(request: RunRequest) -> float:
        return flat(request) if request.stage is Stage.CONFIRM else GOOD(request)

    verdict, _ = play_scores(gate(), luck)
    assert (verdict.state, verdict.reason) == (FamilyState.REFUSED, Reason.NOT_CONFIRMED)
    assert float(str(verdict.evidence["gain"])) < 0


def test_a_gain_below_the_cost_of_change_is_refused() -> None:
    dear = replace(SMALL, min_effect=0.3)
    verdict, _ = play_scores(gate(profile=dear), GOOD)
    assert verdict.reason is Reason.STAGE1_FUTILITY
    assert verdict.evidence["bar"] == pytest.approx(0.8)
    fair = replace(SMALL, min_effect=0.1)
    verdict, _ = play_scores(gate(profile=fair), GOOD)
    assert verdict.reason is Reason.PASSED


# --- failures ----------------------------------------------------------------------------------


def test_a_crash_scores_the_worst_value_seen() -> None:
    def crashes_once(request: RunRequest) -> ReplayRun:
        if request.stage is Stage.STAGE_2 and request.index == 4:
            return failed(request)
        return measured(request, GOOD)

    verdict, _ = play(gate(), crashes_once)
    stage_2 = verdict.evidence["stage2"]
    assert isinstance(stage_2, dict)
    assert stage_2["failed"] == 1
    assert isinstance(stage_2["b"], list)
    assert stage_2["b"][0] == min(r.b for r in BASE)
    assert len(stage_2["b"]) == SMALL.k2


def test_a_crash_is_never_dropped_however_good_the_rest_is() -> None:
    def crashes_in_confirmation(request: RunRequest) -> ReplayRun:
        crashed = request.candidate == "good" and request.stage is Stage.CONFIRM
        return failed(request) if crashed else measured(request, GOOD)

    verdict, _ = play(gate(), crashes_in_confirmation)
    assert verdict.reason is Reason.NOT_CONFIRMED


def test_a_family_of_nothing_but_crashes_is_refused() -> None:
    verdict, _ = play(gate(), failed)
    assert verdict.reason is Reason.STAGE1_FUTILITY


def test_an_incumbent_that_crashes_is_held_to_the_same_rule() -> None:
    def incumbent_crashes(request: RunRequest) -> ReplayRun:
        return failed(request) if request.candidate == "base" else measured(request, GOOD)

    verdict, _ = play(gate(), incumbent_crashes)
    confirm = verdict.evidence["confirm"]
    assert isinstance(confirm, dict)
    assert confirm["old"] == [0.48, 0.48]
    assert confirm["old_failed"] == 2


def test_a_non_finite_score_never_gets_this_far() -> None:
    with pytest.raises(ValueError, match="reached the gate"):
        play_scores(gate(), lambda _: float("nan"))


# --- the pool ----------------------------------------------------------------------------------


def test_a_short_pool_is_filled_before_anything_else() -> None:
    requests = asked(gate(pool=BASE[:3]), [])
    assert [(r.candidate, r.stage, r.splits) for r in requests] == [
        ("base", Stage.POOL, (A, B)),
        ("base", Stage.POOL, (A, B)),
    ]
    verdict, _ = play_scores(gate(pool=BASE[:3]), GOOD)
    pooled = verdict.evidence["pool"]
    assert isinstance(pooled, dict)
    assert isinstance(pooled["a"], list)
    assert len(pooled["a"]) == SMALL.n0
    assert verdict.reason is Reason.PASSED


def test_with_fewer_than_two_baselines_nothing_is_decided() -> None:
    verdict, _ = play(gate(pool=BASE[:1]), failed)
    assert (verdict.state, verdict.reason) == (
        FamilyState.INCONCLUSIVE,
        Reason.POOL_TOO_SMALL,
    )


def test_a_larger_pool_is_used_whole() -> None:
    verdict, _ = play_scores(gate(pool=[*BASE, *BASE]), GOOD)
    pooled = verdict.evidence["pool"]
    assert isinstance(pooled, dict)
    assert isinstance(pooled["b"], list)
    assert len(pooled["b"]) == 10


def test_a_family_without_candidates_is_inconclusive() -> None:
    verdict = next_gate_step(gate(members=()), [])
    assert isinstance(verdict, GateVerdict)
    assert verdict.reason is Reason.NO_CANDIDATE


def test_more_members_than_the_profile_has_room_for_are_not_replayed() -> None:
    many = [Member(candidate=f"c{i}", screening=1.0) for i in range(5)]
    assert {r.candidate for r in asked(gate(members=many), [])} == {"c0", "c1"}


# --- direction ---------------------------------------------------------------------------------


def mirrored(runs: Sequence[HoldoutRun]) -> list[HoldoutRun]:
    return [HoldoutRun(a=-r.a, b=-r.b) for r in runs]


@given(effect=st.sampled_from([-0.05, 0.0, 0.02, 0.05, 0.2]), seed=st.integers(0, 10**6))
def test_minimizing_is_the_mirror_image_of_maximizing(effect: float, seed: int) -> None:
    def noisy(request: RunRequest) -> float:
        rng = random.Random(f"{seed}/{request.candidate}/{request.index}")
        return 0.5 + (effect if request.candidate == "good" else 0.0) + rng.gauss(0, 0.02)

    members = [replace(m, screening=-m.screening) for m in gate().members]
    up, up_runs = play_scores(gate(), noisy)
    down, down_runs = play_scores(
        gate(direction=DOWN, members=members, pool=mirrored(BASE)), lambda r: -noisy(r)
    )
    assert (up.state, up.reason, up.best) == (down.state, down.reason, down.best)
    assert len(up_runs) == len(down_runs)
    assert up.evidence.get("p") == down.evidence.get("p")
    assert up.evidence.get("gain") == down.evidence.get("gain")
    assert up.evidence["stage1_mean"] == -down.evidence["stage1_mean"]  # type: ignore[operator]


# --- resuming ----------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), effect=st.sampled_from([0.0, 0.05, 0.2]))
@settings(max_examples=60)
def test_any_order_and_any_crash_ask_for_the_same_runs_and_end_the_same(
    seed: int, effect: float
) -> None:
    rng = random.Random(seed)

    def run(request: RunRequest) -> ReplayRun:
        own = random.Random(f"{seed}/{request.candidate}/{request.index}")
        if own.random() < 0.1:
            return failed(request)
        shift = effect if request.candidate == "good" else 0.0
        return measured(request, lambda _: 0.5 + shift + own.gauss(0, 0.02))

    expected, straight = play(gate(), run)
    runs: list[ReplayRun] = []
    while not isinstance(step := next_gate_step(gate(), runs), GateVerdict):
        # Only some of what was asked for finishes before the next look, in any order.
        some = rng.sample(step.requests, rng.randint(1, len(step.requests)))
        runs = [*runs, *map(run, some)]
        rng.shuffle(runs)
    assert step == expected
    assert sorted(r.index for r in runs) == sorted(r.index for r in straight)


def test_only_missing_runs_are_asked_for() -> None:
    requests = asked(gate(), [])
    done = [measured(r, GOOD) for r in requests[1:]]
    assert asked(gate(), done) == [requests[0]]


def test_a_run_scored_on_one_half_is_not_finished_on_both() -> None:
    _, runs = play_scores(gate(), GOOD)
    last = runs[-1]
    half = [*runs[:-1], replace(last, b=None)]
    assert [r.index for r in asked(gate(), half)] == [last.index]


def test_runs_it_never_asked_for_change_nothing() -> None:
    verdict, runs = play_scores(gate(), GOOD)
    stray = ReplayRun(candidate="good", stage=Stage.STAGE_2, index=99, b=0.0)
    assert next_gate_step(gate(), [stray, *runs]) == verdict


def test_a_run_delivered_twice_counts_once() -> None:
    verdict, runs = play_scores(gate(), GOOD)
    again = [replace(r, a=0.0, b=0.0) for r in runs]
    assert next_gate_step(gate(), [*runs, *again]) == verdict


# --- halves, ties, guards ----------------------------------------------------------------------


def test_the_confirmation_weighs_both_halves_by_their_items() -> None:
    def lopsided(request: RunRequest) -> ReplayRun:
        run = measured(request, GOOD)
        return replace(run, b=run.b - 0.1) if run.a is not None and run.b is not None else run

    verdict, _ = play(gate(items_a=300, items_b=100), lopsided)
    confirm = verdict.evidence["confirm"]
    assert isinstance(confirm, dict)
    plain, _ = play_scores(gate(), GOOD)
    plain_confirm = plain.evidence["confirm"]
    assert isinstance(plain_confirm, dict)
    assert confirm["new_mean"] == pytest.approx(float(str(plain_confirm["new_mean"])) - 0.025)


def test_without_any_variance_a_difference_is_decided_exactly() -> None:
    flat = pool(*[0.5] * 5)
    verdict, _ = play_scores(gate(pool=flat), lambda r: 0.6 if r.candidate == "good" else 0.5)
    assert verdict.reason is Reason.PASSED
    assert verdict.evidence["ci95"] == pytest.approx([0.1, 0.1])


GUARD = [Guard(metric="format_ok", max_drop=0.05)]


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [(1.0, Reason.PASSED), (0.96, Reason.PASSED), (0.9, Reason.GUARD_REGRESSED)],
)
def test_a_gain_paid_for_with_a_guard_metric_is_refused(candidate: float, reason: Reason) -> None:
    def guarded(request: RunRequest) -> ReplayRun:
        return measured(request, GOOD, candidate if request.candidate == "good" else 1.0)

    verdict, _ = play(gate(guards=GUARD, pool=pool(0.5, 0.51, 0.49, guard=1.0)), guarded)
    assert verdict.reason is reason
    guards = verdict.evidence["guards"]
    assert isinstance(guards, dict)
    assert guards["format_ok"]["drop"] == pytest.approx(1.0 - candidate)


def test_a_guard_must_be_shown_not_to_have_dropped() -> None:
    """A drop inside the margin with an interval far outside it shows nothing."""

    def erratic(request: RunRequest) -> ReplayRun:
        return measured(request, GOOD, 1.0 if request.index % 2 else 0.6)

    verdict, _ = play(gate(guards=GUARD, pool=pool(0.5, 0.51, guard=0.8)), erratic)
    assert verdict.reason is Reason.GUARD_REGRESSED


def test_a_guard_nobody_measured_is_not_held() -> None:
    verdict, _ = play_scores(gate(guards=GUARD), GOOD)
    assert verdict.reason is Reason.GUARD_REGRESSED


def test_the_bounds_on_runs_hold_for_every_ending() -> None:
    for profile in (QUICK, THOROUGH, SMALL):
        low, high = gate_runs_bounds(profile)
        for effect in (-0.1, 0.0, 0.01, 0.3):
            means = {"good": 0.5 + effect, "other": 0.5, "base": 0.5, "third": 0.5}
            many = [*gate().members, Member(candidate="third", screening=0.5)]
            full = gate(profile=profile, members=many, pool=pool(*[0.5, 0.51, 0.49] * 4))
            _, runs = play_scores(full, by_candidate(means))
            assert low <= len(runs) <= high
