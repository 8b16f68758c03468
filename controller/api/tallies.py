"""What studies amount to, counted once per length of their chain."""

from typing import Final

from controller.documents.network import NetworkSums
from ledger.column_file import ColumnFile
from ledger.database import ReadSession
from ledger.outcome_counts import OutcomeCounts
from ledger.recent import Recent
from ledger.records import Study
from ledger.study_pages import StudyTally, tally_study

KEPT: Final = 5000


class Tallies:
    """A study whose chain has not grown is not counted again. Safe to share between threads."""

    def __init__(self, file: ColumnFile) -> None:
        self._known: Recent[StudyTally] = Recent(KEPT)
        self.outcomes = OutcomeCounts(file)
        self.network = NetworkSums()

    def tally(self, session: ReadSession, study: Study) -> StudyTally:
        """Of the study as this session sees it."""
        known = self._known.find(study.id)
        if known is not None and known.head_seq == study.head_seq:
            return known
        found = tally_study(session, study, self.outcomes)
        self._known.keep(study.id, found)
        return found
