"""Whether prompts that come in are still like a reference: how long they are, and their words.

The population stability index of two samples over the same bins is the sum over the bins of
(a - b) * ln(a / b), where a and b are their shares, each counted with half a case more (Jeffreys)
so that an empty bin is not infinite. It is 0 for equal shares and grows with the sample's noise,
too, so that by itself it says nothing about few prompts: p is the share of ways to deal the same
prompts to the two sides that give an index at least as large (a permutation test; whole prompts
are dealt, since the words of one belong together).
"""

import hashlib
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

LENGTH_BINS: Final = 10
WORD_BINS: Final = 32
DEALS: Final = 199
"""The seen one counted in, p is never below 1/200."""

Counts: TypeAlias = Mapping[int, int]
"""Of one prompt: how often it falls into which bin."""


@dataclass(frozen=True, slots=True)
class Stability:
    psi: float
    p: float


def compare_prompts(incoming: Sequence[str], reference: Sequence[str]) -> dict[str, Stability]:
    """By what is compared: `length`, in characters, over the reference's deciles, and `words`,
    dealt into bins by their digest. Raises ValueError: a side has no prompt."""
    if not incoming or not reference:
        raise ValueError("prompts are needed on both sides")
    edges = _deciles([len(prompt) for prompt in reference])

    def by_length(prompt: str) -> Counts:
        return {sum(len(prompt) > edge for edge in edges): 1}

    return {
        "length": _stability(incoming, reference, by_length, len(edges) + 1),
        "words": _stability(incoming, reference, _by_words, WORD_BINS),
    }


def stability_index(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Of counts over the same bins."""
    a_total, b_total = sum(ours) + len(ours) / 2, sum(theirs) + len(theirs) / 2
    index = 0.0
    for a_count, b_count in zip(ours, theirs, strict=True):
        a, b = (a_count + 0.5) / a_total, (b_count + 0.5) / b_total
        index += (a - b) * math.log(a / b)
    return index


def _stability(
    incoming: Sequence[str],
    reference: Sequence[str],
    bins_of: Callable[[str], Counts],
    bins: int,
) -> Stability:
    counted = [bins_of(prompt) for prompt in (*incoming, *reference)]
    whole = _summed(counted, bins)
    size = len(incoming)

    def index(chosen: Sequence[Counts]) -> float:
        ours = _summed(chosen, bins)
        return stability_index(ours, [t - o for t, o in zip(whole, ours, strict=True)])

    seen = index(counted[:size])
    draws = random.Random(0)
    reached = 1
    for _ in range(DEALS):
        # A partial shuffle by random() alone, whose sequence Python promises never to change.
        for i in range(size):
            j = i + int(draws.random() * (len(counted) - i))
            counted[i], counted[j] = counted[j], counted[i]
        reached += index(counted[:size]) >= seen * (1 - 1e-12)
    return Stability(psi=seen, p=reached / (DEALS + 1))


def _summed(counted: Sequence[Counts], bins: int) -> list[int]:
    total = [0] * bins
    for counts in counted:
        for place, count in counts.items():
            total[place] += count
    return total


def _deciles(lengths: Sequence[int]) -> list[int]:
    """Where a bin ends: the different ones among the reference's deciles but the last."""
    ordered = sorted(lengths)
    cuts = (ordered[len(ordered) * i // LENGTH_BINS] for i in range(1, LENGTH_BINS))
    return sorted(set(cuts))


def _by_words(prompt: str) -> Counts:
    words = prompt.lower().split()
    return Counter(hashlib.sha256(word.encode()).digest()[0] % WORD_BINS for word in words)
