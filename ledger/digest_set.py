"""A growing set of SHA-256 digests in a third of the room that a set of their texts takes."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import Final

_SIZE: Final = 32


class DigestSet(AbstractSet[str]):
    """Those that it begins with lie sorted in one piece; what is added comes beside them."""

    def __init__(self, known: Iterable[bytes] = ()) -> None:
        self._known = b"".join(digest for digest, _same in groupby(sorted(known)))
        self._added: set[str] = set()

    def add(self, digest: str) -> None:
        if digest not in self:
            self._added.add(digest)

    def __contains__(self, digest: object) -> bool:
        if digest in self._added:
            return True
        if not isinstance(digest, str) or not self._known:
            return False
        sought = bytes.fromhex(digest)
        place = bisect_left(range(len(self._known) // _SIZE), sought, key=self._at)
        return self._at(place) == sought

    def __iter__(self) -> Iterator[str]:
        yield from (self._at(place).hex() for place in range(len(self._known) // _SIZE))
        yield from self._added

    def __len__(self) -> int:
        return len(self._known) // _SIZE + len(self._added)

    def _at(self, place: int) -> bytes:
        return self._known[place * _SIZE : (place + 1) * _SIZE]

    @classmethod
    def _from_iterable(cls, digests: Iterable[str]) -> "AbstractSet[str]":  # type: ignore[override]  # of what is made of two
        return frozenset(digests)
