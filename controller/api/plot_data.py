"""Columns of finished trials that this process keeps, so that a plot reads only what is new."""

import math
import threading
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.plots.arms import arms_document
from controller.plots.columns import Sample, chosen_places
from controller.plots.history import Summary, history
from ledger.database import ReadSession
from ledger.plot_reads import (
    ArmColumn,
    FinishedColumns,
    extend_arms,
    extend_finished,
    params_of,
)
from ledger.reads import maximizes
from ledger.records import Json, Study

STUDIES_KEPT: Final = 16
PLACES_KEPT: Final = 4_000_000
"""Trials of all kept studies together, at 25 bytes each."""
SAMPLED: Final = 2000
"""Trials whose parameters are read for a plot."""


@dataclass(slots=True)
class _Kept:
    columns: FinishedColumns = field(default_factory=FinishedColumns)
    summary: Summary | None = None
    arms: ArmColumn = field(default_factory=ArmColumn)
    arms_told: list[Json] | None = None
    arms_length: int = -1
    ordered: "array[float]" = field(default_factory=lambda: array("d"))
    """Every finite value, the least first."""
    sample: Sample | None = None
    sample_length: int = -1
    lock: threading.Lock = field(default_factory=threading.Lock)


class PlotData:
    """Safe to share between threads; requests for one study take turns."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def length(self, session: ReadSession, study: Study) -> int:
        """How many search trials ended."""
        kept = self._of(study.id)
        with kept.lock:
            return len(_summed(kept, session, study).columns)

    def ordered(self, session: ReadSession, study: Study) -> "array[float]":
        """Every finite value, the least first; not to be changed."""
        kept = self._of(study.id)
        with kept.lock:
            summary, columns = _summed(kept, session, study)
            fresh = summary.valued[len(kept.ordered) :]
            if fresh:  # one ordered stretch and a short one: soon sorted
                both = [*kept.ordered, *(columns.value[i] for i in fresh)]
                kept.ordered = array("d", sorted(both))
            return kept.ordered

    def best(self, session: ReadSession, study: Study) -> list[int]:
        """Numbers of the best trials, the best first."""
        kept = self._of(study.id)
        with kept.lock:
            summary, columns = _summed(kept, session, study)
            return [columns.number[i] for i in summary.top]

    def spread(self, session: ReadSession, study: Study, limit: int) -> tuple[list[int], int]:
        """Numbers of at most so many trials with a value, every n-th, and how many have one."""
        kept = self._of(study.id)
        with kept.lock:
            summary, columns = _summed(kept, session, study)
            count = len(summary.valued)
            step = max(1, math.ceil(count / limit))
            return [columns.number[i] for i in summary.valued[::step]], count

    def history(self, session: ReadSession, study: Study, points: int) -> dict[str, Json]:
        """The plot, from what is remembered of the trials that were there before."""
        kept = self._of(study.id)
        with kept.lock:
            summary, columns = _summed(kept, session, study)
            return history(columns, summary, points=points)

    def arms(self, session: ReadSession, study: Study) -> list[Json]:
        """What each proposer, or arm of one, brought."""
        kept = self._of(study.id)
        with kept.lock:
            extend_finished(session, study.id, kept.columns)
            if kept.arms_told is None or kept.arms_length != len(kept.columns):
                extend_arms(session, study.id, kept.columns, kept.arms)
                up = maximizes(study)
                kept.arms_told = arms_document(kept.columns, kept.arms, maximize=up)
                kept.arms_length = len(kept.columns)
            return kept.arms_told

    def sample(self, session: ReadSession, study: Study) -> Sample:
        """Some of those with a value, with their parameters."""
        kept = self._of(study.id)
        with kept.lock:
            extend_finished(session, study.id, kept.columns)
            if kept.sample is None or kept.sample_length != len(kept.columns):
                kept.sample = _sample(session, study, kept.columns)
                kept.sample_length = len(kept.columns)
            return kept.sample

    def _of(self, study_id: str) -> _Kept:
        with self._lock:
            kept = self._kept.setdefault(study_id, _Kept())
            self._kept.move_to_end(study_id)
            while len(self._kept) > 1 and (
                len(self._kept) > STUDIES_KEPT
                or sum(len(k.columns) for k in self._kept.values()) > PLACES_KEPT
            ):
                self._kept.popitem(last=False)
            return kept


class _Summed(NamedTuple):
    summary: Summary
    columns: FinishedColumns


def _summed(kept: _Kept, session: ReadSession, study: Study) -> _Summed:
    """Brought up to date; its lock is held."""
    extend_finished(session, study.id, kept.columns)
    if kept.summary is None:
        kept.summary = Summary(maximize=maximizes(study))
    kept.summary.update(kept.columns)
    return _Summed(kept.summary, kept.columns)


def _sample(session: ReadSession, study: Study, columns: FinishedColumns) -> Sample:
    places, of = chosen_places(columns, SAMPLED, maximize=maximizes(study))
    numbers = [columns.number[i] for i in places]
    params = params_of(session, study.id, numbers)
    return Sample(
        numbers=numbers,
        values=[columns.value[i] for i in places],
        outcomes=[columns.outcome[i] for i in places],
        params=[params.get(number, {}) for number in numbers],
        of=of,
    )
