"""Sorted keys of finished trials that a process keeps, so that a list is cut out of them.

What a trial is sorted by does not change once it has ended. Keys are read once, in the order in
which trials ended, into short sorted runs; a page looks into each run. Derived and disposable.
"""

import heapq
import itertools
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Select, and_, func, or_, select

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

Key: TypeAlias = float | str
Place: TypeAlias = tuple[Key, int]
"""A key and the number of its trial: what lists are ordered by."""

KEPT: Final = frozenset(
    {Source.WALL_S, Source.CREATED, Source.PARAMS, Source.SCORES, Source.METRICS}
)
"""What no index of the database is ordered by."""
RUN: Final = 20_000
"""Trials of a run, at most."""
PLACES_KEPT: Final = 5_000_000
"""Of all columns together, at sixteen bytes each."""
_NAMED: Final = 5000
"""Trials that a query names one by one, at most."""
_TRIED: Final = (500, 2000)
"""Trials in order of which those that a filter wants are looked up; beyond, the database sorts."""
_UNFINISHED: Final = sorted(state for state in TrialState if state not in TRIAL_TERMINAL)


@dataclass(slots=True)
class _Run:
    """Ordered by key, then by number."""

    keys: MutableSequence[Any]
    numbers: "array[int]"

    def after(self, place: Place, *, or_at: bool) -> int:
        """Position of the first that comes after a place, or that lies at it."""
        key, number = place
        left = bisect_left(self.keys, key)
        right = bisect_right(self.keys, key, lo=left)
        find = bisect_left if or_at else bisect_right
        return find(self.numbers, number, left, right)

    def ascending(self, start: int) -> Iterator[Place]:
        return zip(self.keys[start:], self.numbers[start:], strict=True)

    def descending(self, end: int) -> Iterator[Place]:
        for at in range(end - 1, -1, -1):
            yield self.keys[at], self.numbers[at]


@dataclass(slots=True)
class _Column:
    """One study's keys of one field."""

    textual: bool
    runs: list[_Run] = field(default_factory=list)
    last: int = 0
    """`finish_seq` of the latest trial that was looked at."""
    words: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return sum(len(run.numbers) for run in self.runs)

    def add(self, places: Sequence[Place]) -> None:
        """Further trials; the last run takes them while there is room in it."""
        known: Iterator[Place] = iter(())
        if self.runs and len(self.runs[-1].numbers) + len(places) <= RUN:
            known = self.runs.pop().ascending(0)
        ordered = sorted([*known, *places])
        if not ordered:
            return
        numbers = array("q", [number for _, number in ordered])
        if self.textual:
            words = [self.words.setdefault(str(key), str(key)) for key, _ in ordered]
            self.runs.append(_Run(words, numbers))
        else:
            self.runs.append(_Run(array("d", [key for key, _ in ordered]), numbers))


@dataclass(frozen=True, slots=True)
class Sorted:
    """A field of a study as one session sees it: every trial that has it, in order."""

    runs: Sequence[_Run]
    unfinished: Sequence[Place]

    def places(self, start: Place | None, *, descending: bool) -> Iterator[Place]:
        """From beyond a place on, in one direction. Among the runs may be trials that ended
        after the session began: to it they are unfinished, or not there at all."""
        parts = (self._of(run, start, descending=descending) for run in self.runs)
        open_now = {number for _key, number in self.unfinished}
        ended = (p for p in heapq.merge(*parts, reverse=descending) if p[1] not in open_now)
        live = [
            place
            for place in self.unfinished
            if start is None or (place < start if descending else place > start)
        ]
        live.sort(reverse=descending)
        return heapq.merge(ended, live, reverse=descending)

    def _of(self, run: _Run, start: Place | None, *, descending: bool) -> Iterator[Place]:
        if descending:
            end = len(run.numbers) if start is None else run.after(start, or_at=True)
            return run.descending(end)
        return run.ascending(0 if start is None else run.after(start, or_at=False))

    def numbers(self, operator: str, wanted: Key, limit: int) -> list[int] | None:
        """Finished trials that compare so; None where they are more than `limit`."""
        found: list[int] = []
        for run in self.runs:
            left, right = bisect_left(run.keys, wanted), bisect_right(run.keys, wanted)
            end = len(run.numbers)
            ranges = {
                "=": ((left, right),),
                "!=": ((0, left), (right, end)),
                "<": ((0, left),),
                "<=": ((0, right),),
                ">": ((right, end),),
                ">=": ((left, end),),
            }[operator]
            if len(found) + sum(b - a for a, b in ranges) > limit:
                return None
            for a, b in ranges:
                found.extend(run.numbers[a:b])
        return found


class SortColumns:
    """Columns of the studies that were sorted or searched last. Safe to share between threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Column] = OrderedDict()
        self._lock = threading.Lock()

    def sorted(self, session: ReadSession, study: Study, by: Field) -> Sorted:
        """The study's trials by one of KEPT's fields, brought up to date from the ledger."""
        textual = is_textual(study, by)
        column = self._of(study.id, by, textual=textual)
        with column.lock:
            _extend(session, study.id, by, column)
            runs = list(column.runs)
        self._trim()
        return Sorted(runs, _unfinished(session, study.id, by, textual=textual))

    def _of(self, study_id: str, by: Field, *, textual: bool) -> _Column:
        with self._lock:
            column = self._kept.setdefault((study_id, str(by)), _Column(textual))
            self._kept.move_to_end((study_id, str(by)))
            return column

    def _trim(self) -> None:
        with self._lock:
            total = sum(len(column) for column in self._kept.values())
            while len(self._kept) > 1 and total > PLACES_KEPT:
                total -= len(self._kept.popitem(last=False)[1])


def _extend(session: ReadSession, study_id: str, by: Field, column: _Column) -> None:
    newest = select(func.max(TRIALS.c.finish_seq)).where(
        TRIALS.c.study_id == study_id, TRIALS.c.finish_seq.is_not(None)
    )
    last = session.connection.execute(newest).scalar_one_or_none() or 0
    while column.last < last:
        until = min(last, column.last + RUN)
        stretch = (TRIALS.c.finish_seq > column.last, TRIALS.c.finish_seq <= until)
        column.add(_places(session, study_id, by, stretch, textual=column.textual))
        column.last = until


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
) -> ColumnElement[bool]:
    """A clause as it is, or the few finished trials that are known to satisfy it and whichever
    of the others do."""
    by = condition.field
    if columns is None or by.source not in KEPT or is_textual(study, by):
        return clause
    wanted = condition_number(condition)
    found = columns.sorted(session, study, by).numbers(condition.operator, wanted, _NAMED)
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
    many that the database finds them sooner."""
    rows: list[Any] = []
    for size in _TRIED if is_filtered else itertools.repeat(count):
        numbers = [number for _key, number in itertools.islice(places, size)]
        found = session.connection.execute(base.where(TRIALS.c.number.in_(numbers)))
        by_number = {row.number: row for row in found}
        rows += [by_number[number] for number in numbers if number in by_number]
        if len(rows) >= count or len(numbers) < size:
            return rows[:count]
    return None
