"""Keeps what lists are sorted by, plots count and pages add up, before anybody asks for it.

It reads what ended since it last looked, a little at a time and resting in between, in a thread
of its own: so no request has to read a long history. All of it may be lost at any time; then
whoever asks reads for himself, and this thread goes on.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controller.api.plot_data import PlotData
from controller.api.tallies import Tallies
from ledger.column_file import UNUSABLE, ColumnFile
from ledger.column_keeping import keep_columns, newest_ended, worth
from ledger.commit_watch import CommitWatch
from ledger.database import Ledger
from ledger.entry_pages import chain_marks
from ledger.errors import ArlError, NotFound
from ledger.reads import get_study

log = logging.getLogger("arl.api.keeping")

EVERY_S: Final = 2.0
REST: Final = 2.0
"""For each second of its work it rests so many."""
REST_AFTER_FAILURE_S: Final = 60.0


class Keeping:
    """What of which study was kept so far, and the thread that goes on with it."""

    def __init__(
        self, ledger: Ledger, file: ColumnFile, plots: PlotData, tallies: Tallies
    ) -> None:
        self._ledger = ledger
        self._file = file
        self._plots = plots
        self._tallies = tallies
        self._heads: dict[str, int] = {}
        """How long each study's chain was when it was looked at."""
        self._ended: dict[str, int] = {}
        """`finish_seq` of the latest trial of each that was kept."""
        self._stopping = threading.Event()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Goes on until left."""
        thread = threading.Thread(target=self._work, name="arl-keeper", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()

    def _work(self) -> None:
        watch = CommitWatch(self._ledger)
        try:
            while not self._stopping.wait(EVERY_S):
                try:
                    if watch.has_news():
                        self.catch_up()
                except (ArlError, *UNUSABLE) as error:  # whoever asks reads for himself
                    log.warning("columns are not kept just now: %s", error)
                    self._heads.clear()
                    self._stopping.wait(REST_AFTER_FAILURE_S)
        finally:
            watch.close()

    def catch_up(self) -> None:
        """Keep what ended of every study by now. Raises ArlError, column_file.UNUSABLE."""
        with self._ledger.read() as session:
            heads = {study_id: mark[0] for study_id, mark in chain_marks(session).items()}
        for study_id, head in heads.items():
            if self._stopping.is_set():
                return
            if self._heads.get(study_id) != head:
                self._catch_up_with(study_id)
                self._heads[study_id] = head

    def _catch_up_with(self, study_id: str) -> None:
        with self._ledger.read() as session:
            newest = newest_ended(session, study_id)
        if newest - self._ended.get(study_id, 0) < worth(newest):
            return
        began, is_behind = time.thread_time(), True
        while is_behind and not self._stopping.wait(REST * (time.thread_time() - began)):
            began = time.thread_time()
            is_behind = self._go_on(study_id, newest)
        self._ended[study_id] = newest

    def _go_on(self, study_id: str, newest: int) -> bool:
        """A stretch of it; whether there may be more."""
        try:
            with self._ledger.read() as session:
                study = get_study(session, study_id)
                self._tallies.tally(session, study)
                is_behind = self._plots.is_behind(session, study, newest, worth(newest))
                if is_behind and self._plots.keep(session, study):
                    return True
                return keep_columns(session, study, self._file)
        except NotFound:  # the service's own chain is no study
            return False
