"""Reads of studies: by id or name, and which of them have something to do."""

from typing import Final

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy import true as sql_true

from ledger.database import ReadSession
from ledger.errors import Conflict, NotFound
from ledger.records import Study
from ledger.rows import COMMANDS, STUDIES, study_from
from ledger.states import STUDY_TERMINAL

_AMBIGUOUS_SHOWN: Final = 10
_ENDED: Final = sorted(STUDY_TERMINAL)


def get_study(session: ReadSession, study_id: str) -> Study:
    """Raises NotFound."""
    row = session.connection.execute(select(STUDIES).where(STUDIES.c.id == study_id)).first()
    if row is None:
        raise NotFound(f"no study has the id {study_id}: `arl studies` lists them")
    return study_from(row)


def find_study(session: ReadSession, id_or_name: str) -> Study:
    """The study with this id, or the only one with this name.

    Raises:
        NotFound: there is none.
        Conflict: several have the name; the message lists their ids.
    """
    run = session.connection.execute
    row = run(select(STUDIES).where(STUDIES.c.id == id_or_name)).first()
    if row is not None:
        return study_from(row)
    named = select(STUDIES).where(STUDIES.c.name == id_or_name)
    rows = run(named.order_by(STUDIES.c.created_at.desc()).limit(_AMBIGUOUS_SHOWN + 1)).all()
    if not rows:
        raise NotFound(f"no study has the id or name {id_or_name}: `arl studies` lists them")
    if len(rows) > 1:
        ids = ", ".join(found.id for found in rows[:_AMBIGUOUS_SHOWN])
        raise Conflict(f"several studies are named {id_or_name}: say which by its id ({ids})")
    return study_from(rows[0])


def claimable_studies(session: ReadSession) -> list[Study]:
    """Studies that nobody drives and that have something to do, oldest first: they have not
    ended, or a command waits for them."""
    free = (
        STUDIES.c.lease_owner.is_(None)
        | STUDIES.c.lease_expires_at.is_(None)
        | (STUDIES.c.lease_expires_at <= session.now())
    )
    return _with_work(session, free)


def workable_studies(session: ReadSession) -> list[Study]:
    """As `claimable_studies`, whoever holds the lease: its holder may be gone."""
    return _with_work(session, sql_true())


def _with_work(session: ReadSession, condition: ColumnElement[bool]) -> list[Study]:
    asked = exists().where(COMMANDS.c.study_id == STUDIES.c.id, COMMANDS.c.state == "pending")
    query = select(STUDIES).where(condition, STUDIES.c.state.not_in(_ENDED) | asked)
    rows = session.connection.execute(query.order_by(STUDIES.c.created_at))
    return [study_from(row) for row in rows]


def ended_study_ids(session: ReadSession) -> set[str]:
    """Studies in which nothing may run any more."""
    query = select(STUDIES.c.id).where(STUDIES.c.state.in_(_ENDED))
    return set(session.connection.execute(query).scalars())
