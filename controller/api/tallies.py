"""What studies amount to, counted once per length of their chain."""

import threading
from collections import OrderedDict
from typing import Final

from controller.documents.network import NetworkSums
from ledger.column_file import ColumnFile
from ledger.database import ReadSession
from ledger.outcome_counts import OutcomeCounts
from ledger.records import Study
from ledger.study_pages import StudyTally, tally_study

KEPT: Final = 5000


class Tallies:
    """A study whose chain has not grown is not counted again. Safe to share between threads."""

    def __init__(self, file: ColumnFile) -> None:
        self._known: OrderedDict[str, StudyTally] = OrderedDict()
        self.outcomes = OutcomeCounts(file)
        self.network = NetworkSums()
        self._lock = threading.Lock()

    def tally(self, session: ReadSession, study: Study) -> StudyTally:
        """Of the study as this session sees it."""
        with self._lock:
            known = self._known.get(study.id)
        if known is not None and known.head_seq == study.head_seq:
            return known
        found = tally_study(session, study, self.outcomes)
        with self._lock:
            self._known[study.id] = found
            self._known.move_to_end(study.id)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found
