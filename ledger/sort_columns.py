"""Sorted keys of finished trials, kept in a file, so that a list is cut out of them.

What a trial is sorted by does not change once it has ended. Keys are read once, in the order in
which trials ended, and kept in their own order; a page looks at its place there. Derived and
disposable: without the file the database sorts, which takes longer.
"""

import itertools
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

from ledger.column_file import UNUSABLE, ColumnFile, Kept, Key, Place
from ledger.database import ReadSession
from ledger.records import Study
from ledger.rows import TRIALS
from ledger.states import TRIAL_TERMINAL, TrialState
from ledger.trial_fields import (
    Condition,
    Field,
    Source,
    condition_number,
    is_textual,
    joined,
    key_of,
)

log = logging.getLogger("arl.ledger")

KEPT: Final = frozenset(
    {Source.WALL_S, Source.CREATED, Source.PARAMS, Source.SCORES, Source.METRICS}
)
"""What no index of the database is ordered by."""
STRETCH: Final = 100_000
"""Trials that are read and kept at once, at most."""
COLUMNS_KEPT: Final = 500
PLACES_KEPT: Final = 40_000_000
"""Of all columns together, at some 20 bytes each."""
_TURNS: Final = 64
"""Columns that are read at the same time, at most; one is read by one request."""
_TAKEN: Final = 500
"""Places that are fetched at once."""
_NAMED: Final = 5000
"""Trials that a query names one by one, at most: all its conditions together."""
_TRIED: Final = (500, 2000)
"""Trials in order of which those that a filter wants are looked up; beyond, the database sorts."""
_UNFINISHED: Final = sorted(state for state in TrialState if state not in TRIAL_TERMINAL)
_BEYOND: Final = {
    False: "(key, number) > (?, ?)",
    True: "(key, number) < (?, ?)",
}
_RANGES: Final = {
    "=": ("key = ?",),
    "!=": ("key < ?", "key > ?"),
    "<": ("key < ?",),
    "<=": ("key <= ?",),
    ">": ("key > ?",),
    ">=": ("key >= ?",),
}


@dataclass(frozen=True, slots=True)
class Sorted:
    """A field of a study as one session sees it: every trial that has it, in order."""

    file: ColumnFile
    kept: Kept | None
    unfinished: Sequence[Place]

    def places(self, start: Place | None, *, descending: bool) -> Iterator[Place]:
        """From beyond a place on, in one direction. Among those kept may be trials that ended
        after the session began: to it they are unfinished, or not there at all."""
        open_now = {number for _key, number in self.unfinished}
        ended = (p for p in self._kept_places(start, descending) if p[1] not in open_now)
        live = [
            place
            for place in self.unfinished
            if start is None or (place < start if descending else place > start)
        ]
        live.sort(reverse=descending)
        return merge(ended, live, reverse=descending)

    def _kept_places(self, start: Place | None, descending: bool) -> Iterator[Place]:  # noqa: FBT001
        """They only grow: the next ones are found by their place, whatever came in between."""
        if self.kept is None:
            return
        order = "DESC" if descending else "ASC"
        while True:
            beyond = "" if start is None else f"AND {_BEYOND[descending]}"
            which = f"{beyond} ORDER BY key {order}, number {order}"
            found = self.file.places(self.kept, which, start or (), _TAKEN)
            yield from found
            if len(found) < _TAKEN:
                return
            start = found[-1]

    def numbers(self, operator: str, wanted: Key, limit: int) -> list[int] | None:
        """Finished trials that compare so; None where they are more than `limit`."""
        found: list[int] = []
        if self.kept is None:
            return found
        for compared in _RANGES[operator]:
            most = limit + 1 - len(found)
            places = self.file.places(self.kept, f"AND {compared}", (wanted,), most)
            found += [number for _key, number in places]
        return None if len(found) > limit else found


class SortColumns:
    """Columns of the studies that were sorted or searched. Safe to share between threads."""

    def __init__(self, file: ColumnFile) -> None:
        self._file = file
        self._turns = [threading.Lock() for _ in range(_TURNS)]

    def sorted(self, session: ReadSession, study: Study, by: Field) -> Sorted | None:
        """The study's trials by one of KEPT's fields, brought up to date from the ledger; None
        where the file is of no use just now."""
        textual = is_textual(study, by)
        turn = self._turns[hash((study.id, str(by))) % _TURNS]
        try:
            with turn:
                kept = self._extended(session, study, by, textual=textual)
        except UNUSABLE as error:
            log.warning("lists are sorted by the database: %s", error)
            return None
        return Sorted(self._file, kept, _unfinished(session, study.id, by, textual=textual))

    def _extended(
        self, session: ReadSession, study: Study, by: Field, *, textual: bool
    ) -> Kept | None:
        """Raises UNUSABLE."""
        newest = select(func.max(TRIALS.c.finish_seq)).where(
            TRIALS.c.study_id == study.id, TRIALS.c.finish_seq.is_not(None)
        )
        last = session.connection.execute(newest).scalar_one_or_none() or 0
        kept = self._file.find(session, study, str(by))
        while (reached := 0 if kept is None else kept.last) < last:
            until = min(last, reached + STRETCH)
            stretch = (TRIALS.c.finish_seq > reached, TRIALS.c.finish_seq <= until)
            places = _places(session, study.id, by, stretch, textual=textual)
            added = self._file.extend(study, str(by), kept, until, places)
            kept = added or self._file.find(session, study, str(by))
            if added is not None:
                self._file.trim(COLUMNS_KEPT, PLACES_KEPT, added)
        return kept


def _unfinished(session: ReadSession, study_id: str, by: Field, *, textual: bool) -> list[Place]:
    open_now = (TRIALS.c.state.in_(_UNFINISHED),)
    return _places(session, study_id, by, open_now, textual=textual)


def _places(
    session: ReadSession, study_id: str, by: Field, where: Sequence[Any], *, textual: bool
) -> list[Place]:
    key = key_of(session, by, textual=textual)
    query = joined(select(key, TRIALS.c.number), by).where(TRIALS.c.study_id == study_id, *where)
    rows = session.connection.execute(query)
    return [(found, number) for found, number in rows if found is not None]


def narrowed(
    session: ReadSession,
    study: Study,
    condition: Condition,
    clause: ColumnElement[bool],
    columns: SortColumns | None,
    *,
    among: int = 1,
) -> ColumnElement[bool]:
    """A clause as it is, or the few finished trials that are known to satisfy it and whichever
    of the others do. `among`: how many conditions the query has."""
    by = condition.field
    if columns is None or by.source not in KEPT or is_textual(study, by):
        return clause
    wanted, most = condition_number(condition), _NAMED // among
    try:
        column = columns.sorted(session, study, by)
        found = None if column is None else column.numbers(condition.operator, wanted, most)
    except UNUSABLE:
        return clause
    if found is None:
        return clause
    ended = and_(TRIALS.c.number.in_(found), TRIALS.c.state.not_in(_UNFINISHED))
    return or_(ended, and_(TRIALS.c.state.in_(_UNFINISHED), clause))


def looked_up(
    session: ReadSession,
    base: Select[Any],
    places: Iterator[Place],
    count: int,
    *,
    is_filtered: bool,
) -> list[Any] | None:
    """The first rows of `base` in the order of places; None where a filter leaves so few of
    many that the database finds them sooner, or where the file is of no use any more."""
    try:
        return _looked_up(session, base, places, count, is_filtered=is_filtered)
    except UNUSABLE:
        return None


def _looked_up(
    session: ReadSession,
    base: Select[Any],
    places: Iterator[Place],
    count: int,
    *,
    is_filtered: bool,
) -> list[Any] | None:
    rows: list[Any] = []
    for size in _TRIED if is_filtered else itertools.repeat(count):
        numbers = [number for _key, number in itertools.islice(places, size)]
        found = session.connection.execute(base.where(TRIALS.c.number.in_(numbers)))
        by_number = {row.number: row for row in found}
        rows += [by_number[number] for number in numbers if number in by_number]
        if len(rows) >= count or len(numbers) < size:
            return rows[:count]
    return None
