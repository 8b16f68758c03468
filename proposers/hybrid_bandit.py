"""Spending trials where the wins per cost are: an arm is drawn the oftener the more it wins.

A win is a trial that beats the best before it. It counts between 0 and 1, by its size: half at
the noise floor plus the study's mean win, so that neither one lucky leap nor steps too small to
matter decide. What is older counts less, so the choice follows when another arm becomes the
better one. Wins are rare, so an arm's rate starts from that of all arms together, and less where
fewer of its values are among the best; that difference fades as the study stalls, since good
values that bring no win any more are worth nothing.
"""

import math
import random
from collections.abc import Collection, Sequence
from typing import Final

from ledger.search import History
from proposers.host import number_rng
from proposers.hybrid_arms import Arm
from proposers.hybrid_options import HybridOptions
from proposers.hybrid_results import Gains, Outcome, read_outcomes
from proposers.hybrid_state import HybridState

WARM_UP: Final = 3
"""Trials that each arm has before any is preferred."""
MEMORY_TRIALS: Final = 15.0
"""After so many trials of the study a win weighs 1/e."""
STALLED_SHARE: Final = 0.05
"""A study that gained less than this share of all its gains lately is about to stall."""
PRIOR_TRIALS: Final = 8.0
"""How many trials at the rate of all arms together are added to those of each."""
EXPLORED: Final = 0.02
"""The share of choices that are left to chance."""
TOP_SHARE: Final = 0.25
"""What is called the best of all values."""
LEAST_QUALITY: Final = 0.1
"""Of an arm whose values are never among them, against the one whose values most often are."""
SHARPNESS: Final = 2.5
"""An arm that is expected to win twice as often is drawn 2 ** SHARPNESS times as often."""
LEAST_COST: Final = 0.1
"""Of the mean of all arms: an arm whose trials all fail at once is not for free."""


class Bandit:
    """Which arm to ask, by what came of each."""

    def __init__(self, arms: Sequence[Arm], options: HybridOptions) -> None:
        self._arms = arms
        self._options = options
        self._gains = Gains()
        self._seed = 0
        self._planned = [0] * len(arms)
        self._rates: list[float] = []

    def begin(self, history: History, seed: int, state: HybridState) -> None:
        self._seed = seed
        self._planned = [0] * len(self._arms)
        self._gains.update(history)
        outcomes = read_outcomes(history, self._arms, self._gains.gains)
        costs = self._costs(outcomes, state)
        rates = win_rates(outcomes, self._gains.gains, noise_of(history))
        self._rates = [rate / cost for rate, cost in zip(rates, costs, strict=True)]

    def choose(self, number: int, able: Collection[int], state: HybridState) -> int:
        # A generator of its own: the arms draw from that of the number.
        rng = random.Random(number_rng(self._seed, number).getrandbits(128))
        place = self._chosen(sorted(able), state, rng)
        self._planned[place] += 1
        return place

    def _chosen(self, able: Sequence[int], state: HybridState, rng: random.Random) -> int:
        had = [state.arms[place].given + self._planned[place] for place in able]
        if min(had) < WARM_UP:
            return able[had.index(min(had))]
        if rng.random() < EXPLORED:
            return rng.choice(able)
        most = max(self._rates[place] for place in able)
        if not most > 0.0:
            return rng.choice(able)
        return rng.choices(able, [(self._rates[p] / most) ** SHARPNESS for p in able])[0]

    def _costs(self, outcomes: Sequence[Sequence[Outcome]], state: HybridState) -> list[float]:
        """What one trial of each arm costs, relative to the mean of all."""
        kind = self._options.cost
        if kind == "trials":
            return [1.0] * len(outcomes)
        usual_s = _mean_s([o for own in outcomes for o in own], 0.0)
        costs = [_mean_s(own, usual_s) for own in outcomes]
        if kind == "usd":
            per_s = (self._options.usd_per_hour or 0.0) / 3600
            charged = [arm.usd / max(1, arm.given) for arm in state.arms]
            costs = [cost * per_s + usd for cost, usd in zip(costs, charged, strict=True)]
        mean = math.fsum(costs) / len(costs)
        return [max(cost / mean, LEAST_COST) if mean > 0.0 else 1.0 for cost in costs]


def win_rates(
    outcomes: Sequence[Sequence[Outcome]], gains: Sequence[float], noise: float
) -> list[float]:
    """The wins per trial that are expected of each arm, relative to each other."""
    usual = noise + _mean([gain for gain in gains if gain > 0.0])
    trials = [math.fsum(weight_of(o.age) for o in own) for own in outcomes]
    won = [
        math.fsum(weight_of(o.age) * o.gain / (o.gain + usual) for o in own if o.gain > 0.0)
        for own in outcomes
    ]
    common = (math.fsum(won) / (math.fsum(trials) or 1.0)) or 1.0
    pace = pace_of(gains)
    return [
        (w + PRIOR_TRIALS * common * q**pace) / (t + PRIOR_TRIALS)
        for w, t, q in zip(won, trials, qualities(outcomes), strict=True)
    ]


def pace_of(gains: Sequence[float]) -> float:
    """1 while the study still gains, falling to 0 as what it gained lately gets small beside what
    it gained in all."""
    total = math.fsum(gains)
    if total <= 0.0:
        return 0.0
    last = len(gains) - 1
    lately = math.fsum(weight_of(last - place) * gain for place, gain in enumerate(gains) if gain)
    return min(1.0, lately / (STALLED_SHARE * total))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def qualities(outcomes: Sequence[Sequence[Outcome]]) -> list[float]:
    """How often each arm's values are among the best quarter of all, against the arm that is
    most often there: LEAST_QUALITY to 1."""
    pool = [outcome for own in outcomes for outcome in own]
    scored = sorted((o.loss, weight_of(o.age)) for o in pool if o.loss is not None)
    if not scored:
        return [1.0] * len(outcomes)
    left = math.fsum(weight for _, weight in scored) * TOP_SHARE
    bar = scored[0][0]
    for loss, weight in scored:
        bar, left = loss, left - weight
        if left <= 0.0:
            break
    shares = []
    for own in outcomes:
        top = math.fsum(weight_of(o.age) for o in own if o.loss is not None and o.loss <= bar)
        # One trial more as good as the mean: an arm of which little is known is none of the worst.
        shares.append((top + TOP_SHARE) / (math.fsum(weight_of(o.age) for o in own) + 1.0))
    most = max(shares)
    return [max(share / most, LEAST_QUALITY) for share in shares]


def noise_of(history: History) -> float:
    noise = history.noise_floor
    return noise if math.isfinite(noise) and noise > 0.0 else 0.0


def weight_of(age: int) -> float:
    return math.exp(-age / MEMORY_TRIALS)


def _mean_s(outcomes: Sequence[Outcome], usual_s: float) -> float:
    """The weighted mean time, as if one trial more had taken the usual time."""
    weights = [weight_of(o.age) for o in outcomes]
    total = math.fsum(w * o.wall_s for w, o in zip(weights, outcomes, strict=True))
    return (total + usual_s) / (math.fsum(weights) + 1.0) if usual_s or outcomes else 0.0
