"""The gate: split, permute, confirm. A pure machine that is asked again after every run.

It keeps nothing: from the family, the incumbent's pool and whatever runs have finished it says
which runs are still needed, or how the family ends. A crash at any time loses nothing and
changes no seed, since a run's seed derives from its fixed index.

1. Stage 1: `k1` runs of each member on holdout half A. The best is the one with the largest sum
   of these and its screening score. Its mean must pass the pool's mean on A plus `min_effect`.
2. Stage 2: `k2` runs of the best on half B; after half of them it stops when they are hopeless.
3. Test, on half B only: stage 2 against the pool plus `min_effect`,
   p = max(permutation of means, one-sided Welch). The items and runs that chose the candidate
   are not those that test it, so alpha needs no correction for the choice.
4. Confirm: `n_new` fresh runs of the best against `n_old` of the incumbent on all of the
   holdout. Their difference, with Welch's interval, is the only gain ever reported.

A run that fails by the candidate's fault scores the worst value seen on that half by then: it is
never dropped. The incumbent's runs are held to the same rule.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain

from controller.decisions.families import (
    Gate,
    GateStep,
    GateVerdict,
    ReplayRun,
    RunRequest,
    Stage,
)
from controller.decisions.gate_progress import Progress
from controller.decisions.guards import judge_guard
from controller.decisions.profiles import GateProfile
from evaluator.statistics import mean, permutation_p, tie_tolerance, welch
from ledger.records import Json, Split
from ledger.states import FamilyState, Reason

_A = (Split.HOLDOUT_A,)
_B = (Split.HOLDOUT_B,)
_BOTH = (Split.HOLDOUT_A, Split.HOLDOUT_B)


def next_gate_step(gate: Gate, runs: Sequence[ReplayRun]) -> GateStep:
    """The runs still needed before the next decision can be taken, or the family's end.

    Depends only on which runs have finished, not on their order; runs it never asked for are
    ignored. Raises ValueError for a non-finite score: such a score never leaves the evaluator.
    """
    if not gate.members:
        return GateVerdict(
            state=FamilyState.INCONCLUSIVE, reason=Reason.NO_CANDIDATE, best=None, evidence={}
        )
    state = Progress(gate, runs)
    for step in (_fill_pool, _stage_1, _interim, _test, _confirm):
        outcome = step(state)
        if outcome is not None:
            return outcome
    raise AssertionError("the confirmation always decides")


def _requests(
    candidate: str, stage: Stage, splits: tuple[Split, ...], first: int, count: int
) -> list[RunRequest]:
    return [
        RunRequest(candidate=candidate, stage=stage, index=index, splits=splits)
        for index in range(first, first + count)
    ]


def _offsets(profile: GateProfile) -> Iterator[int]:
    """First index of stage 2, of the two sides of the confirmation, and of the pool's fill.

    They depend on the profile alone, so that an index means the same run in every state.
    """
    offset = 0
    for count in (profile.m * profile.k1, profile.k2, profile.n_new, profile.n_old):
        offset += count
        yield offset


# --- the stages --------------------------------------------------------------------------------


def _fill_pool(at: Progress) -> GateStep | None:
    """Runs of the incumbent until the pool has n0; both halves of all are then known."""
    lacking = at.profile.n0 - len(at.gate.pool)
    if lacking > 0:
        *_, first = _offsets(at.profile)
        requests = _requests(at.gate.incumbent, Stage.POOL, _BOTH, first, lacking)
        if needed := at.missing(requests):
            return needed
        if len(at.gate.pool) + lacking - at.failures(requests) < 2:
            return at.end(FamilyState.INCONCLUSIVE, Reason.POOL_TOO_SMALL)
        for split, values in at.scores(requests).items():
            at.pool[split].extend(values)
        at.pool_guards += [run.guards for r in requests if (run := at.run(r)) and not run.failed]
    at.evidence["pool"] = {
        "a": at.given_back(at.pool[Split.HOLDOUT_A]),
        "b": at.given_back(at.pool[Split.HOLDOUT_B]),
    }
    return None


def _stage_1(at: Progress) -> GateStep | None:
    k1 = at.profile.k1
    asked = [
        _requests(member.candidate, Stage.STAGE_1, _A, i * k1, k1)
        for i, member in enumerate(at.members)
    ]
    everything = list(chain.from_iterable(asked))
    if needed := at.missing(everything):
        return needed
    flat = at.scores(everything)[Split.HOLDOUT_A]
    scores = [flat[i * k1 : (i + 1) * k1] for i in range(len(asked))]
    totals = [
        sum(values) + at.orient(member.screening)
        for values, member in zip(scores, at.members, strict=True)
    ]
    chosen = max(range(len(totals)), key=totals.__getitem__)
    at.best = at.members[chosen].candidate
    bar = mean(at.pool[Split.HOLDOUT_A]) + at.profile.min_effect
    at.evidence |= {
        "stage1": {
            member.candidate: {
                "screening": member.screening,
                "a": at.given_back(values),
                "failed": at.failures(requests),
            }
            for member, values, requests in zip(at.members, scores, asked, strict=True)
        },
        "best": at.best,
        "bar": at.orient(bar),
        "stage1_mean": at.orient(mean(scores[chosen])),
    }
    if not _exceeds(scores[chosen], bar):
        return at.refuse(Reason.STAGE1_FUTILITY)
    return None


def _stage_2_requests(at: Progress) -> list[RunRequest]:
    first = next(_offsets(at.profile))
    return _requests(at.best, Stage.STAGE_2, _B, first, at.profile.k2)


def _interim(at: Progress) -> GateStep | None:
    requests = _stage_2_requests(at)[: at.profile.k2 // 2]
    if needed := at.missing(requests):
        return needed
    scores = at.scores(requests)[Split.HOLDOUT_B]
    at.evidence["interim_mean"] = at.orient(mean(scores))
    bar = mean(at.pool[Split.HOLDOUT_B]) + at.profile.min_effect
    return None if _exceeds(scores, bar) else at.refuse(Reason.INTERIM_FUTILITY)


def _test(at: Progress) -> GateStep | None:
    requests = _stage_2_requests(at)
    if needed := at.missing(requests):
        return needed
    scores = at.scores(requests)[Split.HOLDOUT_B]
    against = [v + at.profile.min_effect for v in at.pool[Split.HOLDOUT_B]]
    comparison = welch(scores, against)
    permuted = permutation_p(scores, against)
    p = max(permuted, comparison.p_greater)
    at.evidence["stage2"] = {
        "b": at.given_back(scores),
        "failed": at.failures(requests),
        "mean": at.orient(mean(scores)),
        "difference": comparison.difference + at.profile.min_effect,
        "p_permutation": permuted,
        "p_welch": comparison.p_greater,
    }
    at.evidence |= {"p": p, "alpha": at.profile.alpha}
    return None if p <= at.profile.alpha else at.refuse(Reason.NOT_SIGNIFICANT)


def _confirm(at: Progress) -> GateStep:
    _, new_at, old_at, _ = _offsets(at.profile)
    new = _requests(at.best, Stage.CONFIRM, _BOTH, new_at, at.profile.n_new)
    old = _requests(at.gate.incumbent, Stage.CONFIRM, _BOTH, old_at, at.profile.n_old)
    if needed := at.missing([*new, *old]):
        return needed
    both = at.combined([*new, *old])
    new_scores, old_scores = both[: len(new)], both[len(new) :]
    comparison = welch(new_scores, old_scores)
    interval = comparison.interval(0.95)
    at.evidence["confirm"] = {
        "new": at.given_back(new_scores),
        "old": at.given_back(old_scores),
        "new_failed": at.failures(new),
        "old_failed": at.failures(old),
        "new_mean": at.orient(mean(new_scores)),
        "old_mean": at.orient(mean(old_scores)),
    }
    at.evidence |= {
        "gain": comparison.difference,
        "ci95": [interval.low, interval.high],
        "min_effect": at.profile.min_effect,
    }
    reachable = at.profile.min_effect + tie_tolerance([*new_scores, *old_scores])
    if not comparison.difference > reachable:
        return at.refuse(Reason.NOT_CONFIRMED)
    if not _guards_hold(at, new, old):
        return at.refuse(Reason.GUARD_REGRESSED)
    return at.end(FamilyState.PASSED, Reason.PASSED)


def _exceeds(scores: Sequence[float], bar: float) -> bool:
    """Whether their mean is above the bar by more than rounding."""
    return mean(scores) - bar > tie_tolerance([mean(scores), bar])


def _guards_hold(at: Progress, new: Sequence[RunRequest], old: Sequence[RunRequest]) -> bool:
    """Every guard metric on the confirmation's runs; the pool's help the incumbent's side."""
    verdicts: dict[str, Json] = {}
    holds = True
    for guard in at.gate.guards:
        judged = judge_guard(
            guard,
            new=[at.guard_value(r, guard.metric) for r in new],
            old=[at.guard_value(r, guard.metric) for r in old],
            pooled=[g[guard.metric] for g in at.pool_guards if guard.metric in g],
        )
        verdicts[guard.metric] = asdict(judged)
        holds = holds and judged.holds
    if verdicts:
        at.evidence["guards"] = verdicts
    return holds
