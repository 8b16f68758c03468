"""Makes notifications of the entries that a study's webhooks want to know of."""

import logging
from collections.abc import Sequence
from typing import Final

from controller.decisions.notifying import event_of, is_told_already, kinds_of
from controller.documents.notifications import message_text
from controller.settings import Settings
from controller.spec.notify import NotifySpec, read_notify
from ledger import reads, writes
from ledger.database import Ledger, ReadSession
from ledger.entry_pages import page_of_entries
from ledger.errors import ArlError
from ledger.notification_records import NewNotification
from ledger.notifications import Unseen, unseen_studies
from ledger.records import EntryRecord, Study
from ledger.states import STUDY_TERMINAL

log = logging.getLogger("arl.worker")

AT_ONCE: Final = 200
"""Entries that become notifications in one transaction."""
EARLIER: Final = 6
"""Entries of one kind that are looked back at: a study that is held goes to and fro."""


class Noticing:
    """Looks at each study's entries once. What it knows is a cache: a new process looks from the
    cursors in the database."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._seen: dict[str, int] = {}
        self._webhooks: dict[str, tuple[NotifySpec, ...]] = {}

    def look(self) -> bool:
        """Queue what is new. True where a study has more than was looked at."""
        with self._ledger.read() as session:
            found = unseen_studies(session)
        more = False
        for unseen in found:
            if self._seen.get(unseen.study_id, unseen.cursor) < unseen.head:
                more = self._look_at(unseen) or more
        return more

    def _look_at(self, unseen: Unseen) -> bool:
        try:
            return self._queue(unseen)
        except ArlError as error:
            # Of a study that cannot be read no other's notifications have to wait.
            log.warning("webhooks of study %s are told nothing: %s", unseen.study_id, error)
            self._seen[unseen.study_id] = unseen.head
            return False

    def _queue(self, unseen: Unseen) -> bool:
        with self._ledger.read() as session:
            study = reads.get_study(session, unseen.study_id)
            webhooks = self._webhooks_of(study)
            after = max(unseen.cursor, self._seen.get(study.id, 0))
            kinds = kinds_of(event for webhook in webhooks for event in webhook.on)
            entries = page_of_entries(session, study.id, kinds=kinds, after=after, limit=AT_ONCE)
            made = [one for entry in entries for one in self._made(session, study, entry)]
        is_whole = len(entries) < AT_ONCE
        reached = study.head_seq if is_whole else entries[-1].seq
        # A cursor that moved for nothing would be one more durable write for each of a study's.
        if made or not is_whole or study.state in STUDY_TERMINAL:
            with self._ledger.write() as session:
                if not writes.queue_notifications(
                    session, study.id, made, current=unseen.cursor, new=reached
                ):
                    return True  # another worker was faster, and may have seen less
        self._seen[study.id] = reached
        return not is_whole

    def _webhooks_of(self, study: Study) -> tuple[NotifySpec, ...]:
        if study.id not in self._webhooks:
            self._webhooks[study.id] = read_notify(study.spec)
        return self._webhooks[study.id]

    def _made(
        self, session: ReadSession, study: Study, entry: EntryRecord
    ) -> Sequence[NewNotification]:
        event = event_of(entry)
        told = [one for one in self._webhooks_of(study) if event is not None and event in one.on]
        if event is None or not told or is_told_already(entry, _earlier(session, entry)):
            return ()
        body = message_text(session, study, entry, event, self._settings.public_url)
        return [
            NewNotification(
                study_id=study.id,
                seq=entry.seq,
                event=str(event),
                webhook=one.webhook,
                secret=one.secret,
                body=body,
            )
            for one in told
        ]


def _earlier(session: ReadSession, entry: EntryRecord) -> Sequence[EntryRecord]:
    return page_of_entries(
        session,
        entry.chain,
        kinds=(entry.kind,),
        after=entry.seq,
        descending=True,
        limit=EARLIER,
    )
