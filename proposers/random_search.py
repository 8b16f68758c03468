"""Independent random draws: the smallest complete proposer.

Each proposal is a function of the study's seed, its number and what was proposed before it.
A draw that repeats an earlier proposal is drawn again, a bounded number of times; in a finite
space the point is then looked for one by one from a random start, so that a small space is
searched to its last point and then reported as exhausted.
"""

import math
import random
from collections.abc import Callable, Iterator
from typing import Final

from ledger.digests import params_digest
from ledger.records import Params
from ledger.search import History, Proposal, Proposals
from proposers.host import number_rng
from proposers.search_space import SearchSpace, cardinality, point, sample

REDRAWS: Final = 32
MOST_PASSED_OVER: Final = 20_000
"""So many points that could not be right in a row, and the next is proposed all the same: a study
that records what was wrong with it comes on, one that looks through a huge space says nothing."""


def anything(params: Params) -> bool:
    """Every point of the space can be a trial."""
    return True


class RandomSearch:
    def __init__(
        self, search_space: SearchSpace, is_valid: Callable[[Params], bool] = anything
    ) -> None:
        self._space = search_space
        self._size = cardinality(search_space)
        self._is_valid = is_valid

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        if self._size == 0:
            return Proposals(items=())
        made: set[str] = set()
        items: list[Proposal] = []
        for number in range(history.next_number, history.next_number + count):
            rng = number_rng(seed, number)
            for params in fresh_points(self._space, self._size, rng, self._is_valid):
                digest = params_digest(params)
                if digest not in made and digest not in history.proposed:
                    made.add(digest)
                    items.append(Proposal(params=params))
                    break
            else:
                break
        return Proposals(items=items)


def fresh_points(
    space: SearchSpace,
    size: int | None,
    rng: random.Random,
    is_valid: Callable[[Params], bool] = anything,
) -> Iterator[Params]:
    """A few random draws, then every point of a finite space from a random start; `size` is
    the space's cardinality. Only valid ones, unless there are none far and wide: a wrong point
    is no end of the space."""
    seen, last = 0, None
    for _ in range(REDRAWS if size is not None else REDRAWS * REDRAWS):
        last = sample(space, rng)
        if is_valid(last):
            yield last
            seen += 1
            if seen == REDRAWS:
                break
    if size is None:
        if last is not None and not seen:
            yield last
        return
    start = rng.randrange(size)
    stride = _coprime(rng.randrange(size) + 1, size)
    passed_over = 0
    for step in range(size):
        params = point(space, (start + step * stride) % size)
        if passed_over < MOST_PASSED_OVER and not is_valid(params):
            passed_over += 1
            continue
        passed_over = 0
        yield params


def _coprime(first: int, size: int) -> int:
    """The first number from `first` on without a common divisor with `size`: walking with that
    stride visits every point once."""
    while math.gcd(first, size) != 1:
        first += 1
    return first
