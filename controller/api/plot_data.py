"""What plots need of finished trials, so that each reads only what is new: remembered by this
process, and in a file for the next one."""

import logging
import math
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from controller.plots.columns import Sample, chosen_places
from controller.plots.history import history
from controller.plots.kept import Remembered, from_bytes, remembered, to_bytes
from ledger.column_file import UNUSABLE, ColumnFile, Kept
from ledger.database import ReadSession
from ledger.plot_reads import extend_finished, params_of, proposers_of
from ledger.reads import maximizes
from ledger.records import Json, Study

log = logging.getLogger("arl.api")

STUDIES_KEPT: Final = 16
PLACES_KEPT: Final = 4_000_000
"""Trials of all remembered studies together, at some 30 bytes each."""
SAMPLED: Final = 2000
"""Trials whose parameters are read for a plot."""
BEST: Final = 20
"""Trials that `best` names."""
STORED_AFTER: Final = 2000
"""Trials that were counted since the file was written, and a twentieth of those in it: then it is
written again."""
_STORED_SHARE: Final = 20
_ORDERED_SHARE: Final = 10
"""Unasked, values are ordered once so large a share of them is new."""
_NAME: Final = "plots"


@dataclass(slots=True)
class _Study:
    known: Remembered
    stored: Kept | None = None
    stored_size: int = 0
    sample: Sample | None = None
    sample_length: int = -1
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_looked_for: bool = False
    """Whether the file was asked for what it has."""


class PlotData:
    """Safe to share between threads; requests for one study take turns."""

    def __init__(self, file: ColumnFile) -> None:
        self._file = file
        self._studies: OrderedDict[str, _Study] = OrderedDict()
        self._lock = threading.Lock()

    def length(self, session: ReadSession, study: Study) -> int:
        """How many search trials ended."""
        with self._turn(session, study) as kept:
            return len(kept.known.columns)

    def ordered(self, session: ReadSession, study: Study) -> "array[float]":
        """Every finite value, the least first; not to be changed."""
        with self._turn(session, study) as kept:
            _order(kept.known)
            return kept.known.ordered

    def best(self, session: ReadSession, study: Study) -> list[int]:
        """Numbers of the best trials, the best first."""
        with self._turn(session, study) as kept:
            known = kept.known
            return [known.columns.number[i] for i in known.summary.top[:BEST]]

    def spread(self, session: ReadSession, study: Study, limit: int) -> tuple[list[int], int]:
        """Numbers of at most so many trials with a value, every n-th, and how many have one."""
        with self._turn(session, study) as kept:
            known = kept.known
            valued = known.summary.valued
            step = max(1, math.ceil(len(valued) / limit))
            return [known.columns.number[i] for i in valued[::step]], len(valued)

    def history(self, session: ReadSession, study: Study, points: int) -> dict[str, Json]:
        """The plot, from what is remembered of the trials that were there before."""
        with self._turn(session, study) as kept:
            known = kept.known
            return history(known.columns, known.summary, points=points)

    def arms(self, session: ReadSession, study: Study) -> list[Json]:
        """What each proposer, or arm of one, brought."""
        with self._turn(session, study) as kept:
            known = kept.known
            names = proposers_of(session, study.id, known.columns, known.arms.seen)
            known.arms.update(known.columns, names)
            return known.arms.document()

    def sample(self, session: ReadSession, study: Study) -> Sample:
        """Some of those with a value, with their parameters."""
        with self._turn(session, study) as kept:
            known = kept.known
            if kept.sample is None or kept.sample_length != len(known.columns):
                kept.sample = _sample(session, study, known)
                kept.sample_length = len(known.columns)
            return kept.sample

    def is_behind(self, session: ReadSession, study: Study, newest: int, least: int) -> bool:
        """Whether more than so many trials up to the newest are not counted. Raises UNUSABLE."""
        with self._lock:
            known = self._studies.get(study.id)
        if known is not None and len(known.known.columns):
            return newest - known.known.columns.finish[-1] >= least
        kept = self._file.find(session, study, _NAME, is_asked=False)
        last = 0 if kept is None else kept.last
        return newest - last >= max(least, last // _STORED_SHARE)

    def keep(self, session: ReadSession, study: Study) -> bool:
        """Count some trials before anybody asks; whether there were any."""
        with self._turn(session, study, whole=False) as kept:
            known = kept.known
            seen, columns = known.arms.seen, known.columns
            known.arms.update(columns, proposers_of(session, study.id, columns, seen))
            fresh = len(known.summary.valued) - len(known.ordered)
            if fresh > len(known.ordered) // _ORDERED_SHARE:
                _order(known)
            return known.arms.seen > seen

    def _of(self, study: Study) -> _Study:
        with self._lock:
            kept = self._studies.setdefault(
                study.id, _Study(remembered(maximize=maximizes(study)))
            )
            self._studies.move_to_end(study.id)
            while len(self._studies) > 1 and (
                len(self._studies) > STUDIES_KEPT
                or sum(len(k.known.columns) for k in self._studies.values()) > PLACES_KEPT
            ):
                self._studies.popitem(last=False)
            return kept

    @contextmanager
    def _turn(self, session: ReadSession, study: Study, *, whole: bool = True) -> Iterator[_Study]:
        """The study, brought up to date, for one request; what that added is stored."""
        kept = self._of(study)
        with kept.lock:
            if not kept.is_looked_for:
                kept.is_looked_for = True
                self._load(kept, session, study)
            newest = extend_finished(session, study.id, kept.known.columns, whole=whole)
            kept.known.summary.update(kept.known.columns)
            yield kept
            self._store(kept, study, newest)

    def _load(self, kept: _Study, session: ReadSession, study: Study) -> None:
        try:
            # Known before it is read: what is damaged is stored over, too.
            kept.stored = self._file.find(session, study, _NAME)
            data = None if kept.stored is None else self._file.load(kept.stored)
            if data is not None:
                kept.known = from_bytes(data)
                kept.stored_size = kept.known.size
        except (*UNUSABLE, ValueError) as error:
            log.warning("plots of %s are computed anew: %s", study.id, error)

    def _store(self, kept: _Study, study: Study, newest: int) -> None:
        """Once it is worth it. A session that sees less than others did stores nothing: it would
        be under an older head than it is of."""
        finish, size = kept.known.columns.finish, kept.known.size
        least = max(STORED_AFTER, kept.stored_size // _STORED_SHARE)
        if size - kept.stored_size < least or finish[-1] > newest:
            return
        kept.stored_size = size  # also where it fails: not again for every request
        try:
            data = to_bytes(kept.known)
            kept.stored = self._file.store(study, _NAME, kept.stored, finish[-1], data)
        except UNUSABLE as error:
            log.warning("plots of %s are not kept: %s", study.id, error)


def _order(known: Remembered) -> None:
    fresh = known.summary.valued[len(known.ordered) :]
    if fresh:  # one ordered stretch and a short one: soon sorted
        both = [*known.ordered, *(known.columns.value[i] for i in fresh)]
        known.ordered = array("d", sorted(both))


def _sample(session: ReadSession, study: Study, known: Remembered) -> Sample:
    columns, valued = known.columns, known.summary.valued
    places = chosen_places(valued, known.summary.top, SAMPLED)
    numbers = [columns.number[i] for i in places]
    params = params_of(session, study.id, numbers)
    return Sample(
        numbers=numbers,
        values=[columns.value[i] for i in places],
        outcomes=[columns.outcome[i] for i in places],
        params=[params.get(number, {}) for number in numbers],
        of=len(valued),
    )
