"""Where a verb's words go: the ledger of this machine, or a server that was named."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Final, Protocol

from controller.cli.naming import (
    CandidateName,
    TrialName,
    find_anything,
    find_candidate,
    find_trial_id,
)
from controller.cli.opening import ledger_opened
from controller.documents.candidates import candidate_document, lineage_document
from controller.documents.log_text import (
    CHUNK,
    LogReader,
    LogText,
    find_log_tail,
    handle_of,
    log_reader,
)
from controller.documents.network import trial_network_document
from controller.documents.studies import listed_document, whole_document
from controller.documents.trials import detail_document, trial_document
from controller.settings import server_address
from ledger import lineage as origins
from ledger import reads, summaries
from ledger.database import Ledger, ReadSession
from ledger.records import Json
from ledger.states import StudyState

TAIL_BYTES: Final = 2000

Document = dict[str, Json]


def server_named() -> bool:
    """Whether the user works on a server."""
    return server_address() is not None


class Source(Protocol):
    """What verbs that look at things read, as documents. Names are what a user writes. Every
    method raises NotFound, Conflict."""

    def studies(self, states: Sequence[StudyState]) -> list[Document]:
        """The newest first."""
        ...

    def anything(self, name: str, trials: int) -> tuple[str, Document]:
        """`study` with its latest `trials`, `trial` or `candidate`, and its document."""
        ...

    def trial(self, name: str) -> Document: ...

    def lineage(self, candidate: str) -> Document: ...

    def log(self, attempt: str, offset: int) -> tuple[str, int]:
        """Safe text from that byte on, and the byte to go on from; empty where there is none."""
        ...


@contextmanager
def source_opened() -> Iterator[Source]:
    """The server that ARL_SERVER or --server names, else the ledger here."""
    if server_named():
        from controller.cli.server_source import ServerSource
        from controller.client import Client

        with Client() as client:
            yield ServerSource(client)
        return
    with ledger_opened() as ledger, ExitStack() as stack:
        # Only what prints logs opens where they are: the others are quicker without.
        yield LedgerSource(ledger, cache(lambda: stack.enter_context(log_reader())))


class LedgerSource:
    """Source over the ledger of this machine."""

    def __init__(self, ledger: Ledger, reader: Callable[[], LogReader]) -> None:
        self._ledger = ledger
        self._reader = reader
        self._texts: dict[str, LogText] = {}

    def studies(self, states: Sequence[StudyState]) -> list[Document]:
        with self._ledger.read() as session:
            found = reads.list_studies(session, states=states or None)
        return [listed_document(summary) for summary in found]

    def anything(self, name: str, trials: int) -> tuple[str, Document]:
        with self._ledger.read() as session:
            found = find_anything(session, name)
            if isinstance(found, TrialName):
                return "trial", self._trial(session, found.id)
            if isinstance(found, CandidateName):
                candidate = reads.get_candidate(session, found.id)
                executions = summaries.trials_of(session, candidate.id)
                made = reads.list_conversions(session, candidate_id=candidate.id)
                return "candidate", candidate_document(candidate, executions, made)
            document = whole_document(session, found)
            latest: list[Json] = []
            if trials:
                page = reads.list_trials(session, found.id, descending=True, limit=trials)
                latest = [trial_document(i.trial, i.candidate) for i in reversed(page.items)]
            document["trials"] = latest
            return "study", document

    def trial(self, name: str) -> Document:
        with self._ledger.read() as session:
            return self._trial(session, find_trial_id(session, name))

    def _trial(self, session: ReadSession, trial_id: str) -> Document:
        detail = reads.get_trial(session, trial_id)
        study = reads.get_study(session, detail.trial.study_id)
        tails = {a.id: find_log_tail(self._reader(), a, TAIL_BYTES) for a in detail.attempts}
        document = detail_document(detail)
        document["network"] = trial_network_document(session, study, trial_id)
        document["log_tails"] = {name: tail for name, tail in tails.items() if tail}
        return document

    def lineage(self, candidate: str) -> Document:
        with self._ledger.read() as session:
            found = find_candidate(session, candidate)
            return lineage_document(found.id, origins.lineage(session, found.id))

    def log(self, attempt: str, offset: int) -> tuple[str, int]:
        from ledger.attempt_reads import find_attempt

        with self._ledger.read() as session:
            found = find_attempt(session, attempt)
        if found is None:
            return "", offset
        chunk = self._reader().read_log(handle_of(found), offset=offset, limit=CHUNK)
        if not chunk.data:
            return "", offset
        text = self._texts.setdefault(attempt, LogText())
        return text.add(chunk.data), chunk.offset + len(chunk.data)
