"""One simulated study: a fake runner under the decisions that the worker calls."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from controller.decisions.families import (
    Gate,
    GateVerdict,
    HoldoutRun,
    Member,
    ReplayRun,
    RunRequest,
    Stage,
)
from controller.decisions.profiles import GateProfile
from controller.decisions.promotion import Screened, choose_family
from controller.decisions.replays import next_gate_step
from controller.decisions.screening import decide_screening
from evaluator.statistics import noise_floor
from ledger.records import Direction, Split, Verdict
from ledger.states import FamilyState

SCREENED: Final = 100
PLANTED: Final = 5
ITEM_SD: Final = 0.3
"""What sampling a split's items adds to a score, in standard deviations between runs."""
EFFECTS: Final = (0.0, 1.0, 2.0, 3.0)
UP: Final = Direction.MAXIMIZE
Draw = Callable[[random.Random], float]


# --- noise -------------------------------------------------------------------------------------


def normal(rng: random.Random) -> float:
    return rng.gauss(0.0, 1.0)


def student_3(rng: random.Random) -> float:
    """Student's t with 3 degrees of freedom, scaled to unit variance."""
    return rng.gauss(0.0, 1.0) / math.sqrt(rng.gammavariate(1.5, 2.0))


SKEW: Final = 0.95
"""Sigma of a lognormal with skewness 5."""
_LOGNORMAL_MEAN: Final = math.exp(SKEW * SKEW / 2.0)
_LOGNORMAL_SD: Final = _LOGNORMAL_MEAN * math.sqrt(math.expm1(SKEW * SKEW))


def right_skewed(rng: random.Random) -> float:
    return (math.exp(rng.gauss(0.0, SKEW)) - _LOGNORMAL_MEAN) / _LOGNORMAL_SD


def left_skewed(rng: random.Random) -> float:
    return -right_skewed(rng)


COLLAPSE_SHARE: Final = 0.1
COLLAPSE_DROP: Final = 7.0
_COLLAPSE_SD: Final = math.sqrt(1.0 + COLLAPSE_SHARE * (1.0 - COLLAPSE_SHARE) * COLLAPSE_DROP**2)


def collapsing(rng: random.Random) -> float:
    """One run in ten falls seven standard deviations of the others below them; unit variance."""
    fallen = COLLAPSE_DROP if rng.random() < COLLAPSE_SHARE else 0.0
    return (rng.gauss(0.0, 1.0) - fallen + COLLAPSE_SHARE * COLLAPSE_DROP) / _COLLAPSE_SD


def sometimes_collapsing(rng: random.Random) -> float:
    """Normal, but one run in twenty falls five standard deviations; more variance, mean 0."""
    return rng.gauss(0.0, 1.0) - (5.0 if rng.random() < 0.05 else 0.0) + 0.05 * 5.0


def twice(rng: random.Random) -> float:
    return rng.gauss(0.0, 2.0)


@dataclass(frozen=True, slots=True)
class Family:
    """Noise of the incumbent's runs and of the candidates', each of mean 0."""

    name: str
    incumbent: Draw
    candidate: Draw
    effects: Sequence[float] = EFFECTS
    worse_half: float = 0.0
    """How far the worse half of the candidates lies below the incumbent."""


FAMILIES: Final = (
    Family("normal", normal, normal),
    Family("t3", student_3, student_3),
    Family("right-skewed", right_skewed, right_skewed),
    Family("left-skewed", left_skewed, left_skewed),
    Family("collapsing runs", collapsing, collapsing),
    Family("twice the noise in candidates", normal, twice, (0.0,)),
    Family("half the candidates worse", normal, normal, (0.0,), worse_half=1.0),
    Family("only the candidate collapses, equal mean", normal, sometimes_collapsing, (0.0,)),
)


# --- one study ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one simulated study came to."""

    provisional: bool
    """It passed the test and was confirmed or not."""
    promoted: bool
    better: bool
    """The chosen candidate really is better than the incumbent."""
    gate_runs: int
    confirm_runs: int
    gain: float | None
    true_gain: float
    covered: bool
    greedy_kept: bool
    """A keep-if-better loop over the same scores kept something that is no better."""
    greedy_claim: float
    screening_kept: bool
    """The same for our screening with its margin."""


class Study:
    """A fake runner for one study: true means, and noise around them."""

    def __init__(self, family: Family, effect: float, rng: random.Random) -> None:
        self.family = family
        self.rng = rng
        self.means = {
            str(i): effect
            if i < PLANTED
            else (-family.worse_half if i % 2 and family.worse_half else 0.0)
            for i in range(SCREENED)
        }

    def quality(self, candidate: str | None) -> float:
        if candidate is None or candidate not in self.means:
            return self.family.incumbent(self.rng)
        return self.means[candidate] + self.family.candidate(self.rng)

    def scored(self, quality: float) -> float:
        return quality + self.rng.gauss(0.0, ITEM_SD)

    def replay(self, request: RunRequest) -> ReplayRun:
        quality = self.quality(request.candidate)
        scores = {split: self.scored(quality) for split in request.splits}
        return ReplayRun(
            candidate=request.candidate,
            stage=request.stage,
            index=request.index,
            a=scores.get(Split.HOLDOUT_A),
            b=scores.get(Split.HOLDOUT_B),
        )


INCUMBENT: Final = "incumbent"


def simulate(profile: GateProfile, family: Family, effect: float, seed: str) -> Outcome:
    study = Study(family, effect, random.Random(seed))
    pool, baseline = _pool(study, profile.n0)
    screened = [Screened(candidate=c, value=study.scored(study.quality(c))) for c in study.means]
    members = choose_family(
        screened, incumbent=INCUMBENT, baseline=baseline, direction=UP, m=profile.m
    )
    verdict, runs = drive(study, profile, members, pool)
    confirmed = "gain" in verdict.evidence
    gain = float(str(verdict.evidence["gain"])) if confirmed else None
    truth = study.means.get(verdict.best or "", 0.0)
    interval = verdict.evidence.get("ci95")
    low, high = interval if isinstance(interval, list) else (0.0, 0.0)
    confirm_runs = sum(r.stage is Stage.CONFIRM for r in runs)
    greedy_kept, claim = _greedy(screened, study, baseline)
    return Outcome(
        provisional=confirmed,
        promoted=verdict.state is FamilyState.PASSED,
        better=truth > 0.0,
        gate_runs=len(runs) - confirm_runs,
        confirm_runs=confirm_runs,
        gain=gain,
        true_gain=truth,
        covered=confirmed and low <= truth <= high,
        greedy_kept=greedy_kept,
        greedy_claim=claim,
        screening_kept=_screening_kept(screened, study, baseline),
    )


def _pool(study: Study, n0: int) -> tuple[list[HoldoutRun], list[float]]:
    pool, baseline = [], []
    for _ in range(n0):
        quality = study.quality(None)
        pool.append(HoldoutRun(a=study.scored(quality), b=study.scored(quality)))
        baseline.append(study.scored(quality))
    return pool, baseline


def drive(
    study: Study, profile: GateProfile, members: Sequence[Member], pool: Sequence[HoldoutRun]
) -> tuple[GateVerdict, list[ReplayRun]]:
    """Give the gate the runs that it asks for until it decides."""
    gate = Gate(profile=profile, direction=UP, members=members, incumbent=INCUMBENT, pool=pool)
    runs: list[ReplayRun] = []
    while not isinstance(step := next_gate_step(gate, runs), GateVerdict):
        runs += [study.replay(request) for request in step.requests]
    return step, runs


def _greedy(
    screened: Sequence[Screened], study: Study, baseline: Sequence[float]
) -> tuple[bool, float]:
    """Keep whatever scores above the best so far, from one run of the incumbent."""
    best = baseline[0]
    kept_false = False
    for trial in screened:
        if trial.value is not None and trial.value > best:
            best = trial.value
            kept_false = kept_false or study.means[trial.candidate] <= 0.0
    return kept_false, best - baseline[0]


def _screening_kept(screened: Sequence[Screened], study: Study, baseline: Sequence[float]) -> bool:
    leader: tuple[str, float] | None = None
    floor = noise_floor([baseline]) or 0.0
    kept_false = False
    for trial in screened:
        decision = decide_screening(
            value=trial.value,
            leader_value=leader[1] if leader else None,
            leader_id=leader[0] if leader else None,
            baseline=baseline,
            noise_floor=floor,
            direction=UP,
        )
        if decision.verdict is Verdict.KEEP and trial.value is not None:
            leader = (trial.candidate, trial.value)
            kept_false = kept_false or study.means[trial.candidate] <= 0.0
    return kept_false
