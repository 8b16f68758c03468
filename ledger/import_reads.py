"""What the chain says of an imported study beyond its rows."""

import json
from collections.abc import Iterator
from typing import Final

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.import_entries import StudyImported, TrialImported
from ledger.rows import ENTRIES

_PAGE: Final = 500


def find_study_import(session: ReadSession, study_id: str) -> StudyImported | None:
    """Where the study came from; None for one that ARL ran."""
    query = select(ENTRIES.c.body).where(
        ENTRIES.c.chain == study_id, ENTRIES.c.kind == StudyImported.kind
    )
    body = session.connection.execute(query).scalar()
    return None if body is None else StudyImported(**json.loads(body)["payload"])


def trial_origins(session: ReadSession, study_id: str) -> Iterator[tuple[int, str]]:
    """Number and the other tool's own notes of every imported trial, by number."""
    last = 0
    while True:
        query = select(ENTRIES.c.seq, ENTRIES.c.body).where(
            ENTRIES.c.chain == study_id,
            ENTRIES.c.kind == TrialImported.kind,
            ENTRIES.c.seq > last,
        )
        page = session.connection.execute(query.order_by(ENTRIES.c.seq).limit(_PAGE)).all()
        if not page:
            return
        last = page[-1].seq
        for _, body in page:
            payload = json.loads(body)["payload"]
            yield payload["number"], payload["origin"]
