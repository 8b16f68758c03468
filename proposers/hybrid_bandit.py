"""Spending trials where the wins per cost are: an arm is drawn the oftener the more it brings.

What an arm brings is seen at two things. How its values rank among the latest of the study, the
best counting most: every trial says something of that, so a poor arm is known after a few. And
its wins, trials that beat the best before them: they are rare, but they are what is wanted. A win
counts between 0 and 1, by its size: half at the noise floor plus the study's mean win, so that
neither one lucky leap nor steps too small to matter decide. What is older counts less, so the
choice follows when another arm becomes the better one.
"""

import itertools
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

WARM_UP: Final = 5
"""Trials that each arm has before any is preferred."""
MEMORY_TRIALS: Final = 20.0
"""After so many trials of the study a trial weighs 1/e."""
PRIOR_RANKED: Final = 2.0
"""How many trials that rank like the mean are added to those of each arm."""
PRIOR_WON: Final = 8.0
"""How many that win as often as the mean."""
RANKED_SHARE: Final = 0.5
"""Ranks below the best half count nothing."""
WINS_EXPONENT: Final = 0.5
"""How much wins count beside ranks."""
EXPLORED: Final = 0.06
"""The share of choices that are left to chance."""
SHARPNESS: Final = 6.0
"""An arm from which twice as much is expected is drawn 2 ** SHARPNESS times as often."""
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
        ranks = qualities(outcomes)
        wins = win_rates(outcomes, noise_of(history) + self._gains.usual)
        self._rates = [
            rank * win**WINS_EXPONENT / cost
            for rank, win, cost in zip(ranks, wins, costs, strict=True)
        ]

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


def win_rates(outcomes: Sequence[Sequence[Outcome]], half: float) -> list[float]:
    """The wins per trial that are expected of each arm, relative to each other; a gain of `half`
    counts as half a win."""
    trials = [math.fsum(weight_of(o.age) for o in own) for own in outcomes]
    won = [
        math.fsum(weight_of(o.age) * o.gain / (o.gain + half) for o in own if o.gain > 0.0)
        for own in outcomes
    ]
    common = (math.fsum(won) / (math.fsum(trials) or 1.0)) or 1.0
    return [(w + PRIOR_WON * common) / (t + PRIOR_WON) for w, t in zip(won, trials, strict=True)]


def qualities(outcomes: Sequence[Sequence[Outcome]]) -> list[float]:
    """What each arm's trials are worth by their ranks, relative to each other: the logarithm of
    how far ahead of the middle of all each is. A failure is worth nothing."""
    known = sorted(
        (_loss(outcome), place, weight_of(outcome.age))
        for place, own in enumerate(outcomes)
        for outcome in own
    )
    total = math.fsum(weight for _, _, weight in known)
    worth, trials, before = [0.0] * len(outcomes), [0.0] * len(outcomes), 0.0
    for loss, equal in itertools.groupby(known, key=lambda one: one[0]):
        ones = list(equal)
        weight = math.fsum(weight for _, _, weight in ones)
        rank = (before + weight / 2) / total  # of all that are equal: their middle
        before += weight
        each = max(0.0, math.log(RANKED_SHARE / rank)) if loss < math.inf else 0.0
        for _, place, own_weight in ones:
            trials[place] += own_weight
            worth[place] += own_weight * each
    if not math.fsum(worth) > 0.0:
        return [1.0] * len(outcomes)
    mean = math.fsum(worth) / total
    return [
        (w + PRIOR_RANKED * mean) / (t + PRIOR_RANKED) for w, t in zip(worth, trials, strict=True)
    ]


def _loss(outcome: Outcome) -> float:
    return math.inf if outcome.loss is None else outcome.loss


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
