"""Every point of a finite space, in order: parameters by name, the last one changing fastest.

The state is a cursor, not the trial's number: a trial that someone enqueued by hand takes a
number too, and must neither cost the grid a point nor be repeated by it. Without a state the
walk starts at the first point and passes over what was proposed already, which ends at the same
cursor.
"""

import json
from collections.abc import Callable

from ledger.digests import json_digest, params_digest
from ledger.errors import InvalidInput
from ledger.records import Params
from ledger.search import History, Proposal, Proposals
from proposers.random_search import MOST_PASSED_OVER, anything
from proposers.search_space import Float, SearchSpace, cardinality, point


class Grid:
    """Raises InvalidInput for a space with a continuous range."""

    def __init__(
        self, search_space: SearchSpace, is_valid: Callable[[Params], bool] = anything
    ) -> None:
        size = cardinality(search_space)
        if size is None:
            name = continuous(search_space)[0]
            raise InvalidInput(
                f"space.{name}: a grid needs a finite range; write a step, or choices"
            )
        self._space = search_space
        self._size = size
        self._is_valid = is_valid
        self._space_digest = json_digest(
            {name: repr(distribution) for name, distribution in search_space.items()}
        )[:16]

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        cursor = self._read(state)
        items: list[Proposal] = []
        passed_over = 0
        while len(items) < count and cursor < self._size:
            params = point(self._space, cursor)
            cursor += 1
            if params_digest(params) in history.proposed:
                continue
            if passed_over < MOST_PASSED_OVER and not self._is_valid(params):
                passed_over += 1
                continue
            passed_over = 0
            items.append(Proposal(params=params))
        return Proposals(items=items, state=self._written(cursor))

    def _read(self, state: bytes | None) -> int:
        """Where the last call stopped; 0 when there was none, or it walked another space."""
        if state is None:
            return 0
        document = json.loads(state)
        return int(document["next"]) if document["space"] == self._space_digest else 0

    def _written(self, cursor: int) -> bytes:
        return json.dumps({"next": cursor, "space": self._space_digest}).encode()


def continuous(search_space: SearchSpace) -> list[str]:
    """The parameters a grid cannot walk, by name."""
    return [
        name
        for name in sorted(search_space)
        if isinstance(search_space[name], Float) and search_space[name].size is None
    ]
