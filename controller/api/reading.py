"""What routes that only read share: who may, the study a path names, pages' parameters."""

from typing import Annotated, Final, Literal

from fastapi import Depends, Path, Query, Request

from controller.api.access import Allowed, Principal
from controller.api.routing import service_of
from controller.api.tokens import Scope
from controller.documents.plain_text import plain
from controller.wiring import Service
from ledger import family_pages, reads
from ledger.column_file import ColumnFile
from ledger.database import ReadSession
from ledger.errors import InvalidInput, NotFound
from ledger.records import Candidate, Family, Study, Trial

LONGEST_NAME: Final = 200
LARGEST_NUMBER: Final = 2**31 - 1

Reader = Annotated[Principal, Depends(Allowed(Scope.READ))]
TheService = Annotated[Service, Depends(service_of)]
StudyName = Annotated[
    str, Path(max_length=LONGEST_NAME, description="A study's id, or its name if no other has it")
]
TrialId = Annotated[str, Path(max_length=LONGEST_NAME, description="A trial's id")]
TrialNumber = Annotated[int, Path(ge=0, le=LARGEST_NUMBER, description="Its place in the study")]
ModelName = Annotated[
    str, Path(max_length=LONGEST_NAME, description="A name under promotion.model of a study")
]
PositionNumber = Annotated[
    int, Path(ge=1, le=LARGEST_NUMBER, description="Its place in the pointer's history")
]
FamilyId = Annotated[str, Path(max_length=LONGEST_NAME, description="A family's id")]
CandidateId = Annotated[str, Path(max_length=LONGEST_NAME, description="A candidate's id")]
Cursor = Annotated[
    str | None, Query(max_length=2000, description="`next_cursor` of the page before")
]
Order = Annotated[Literal["asc", "desc"], Query(description="Rising or falling")]
Limit = Annotated[int, Query(ge=1, le=500, description="Items of a page, at most")]
Points = Annotated[
    int, Query(ge=10, le=5000, description="Points of a curve or plot, at most; extremes are kept")
]


def column_file_of(request: Request) -> ColumnFile:
    """Where this app keeps what it computed of finished trials."""
    found: ColumnFile = request.app.state.column_file
    return found


def place_of(cursor: str | None) -> int | None:
    """The place that a list's own cursor names; None at its beginning. Raises InvalidInput."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or int(cursor[:20]) > LARGEST_NUMBER:
        raise InvalidInput("cursor: it is none of this list's; leave it out to start again")
    return int(cursor)


def study_named(session: ReadSession, name: str) -> Study:
    """Raises NotFound; Conflict when several studies have the name."""
    try:
        return reads.find_study(session, _storable(name, "study"))
    except NotFound:
        raise NotFound(f"no study has the id or name {plain(name)}") from None


def trial_named(session: ReadSession, trial_id: str) -> reads.TrialDetail:
    """Raises NotFound."""
    return reads.get_trial(session, _storable(trial_id, "trial"))


def candidate_named(session: ReadSession, candidate_id: str) -> Candidate:
    """Raises NotFound."""
    return reads.get_candidate(session, _storable(candidate_id, "candidate"))


def family_named(session: ReadSession, family_id: str) -> Family:
    """Raises NotFound."""
    return family_pages.get_family(session, _storable(family_id, "family"))


def named_model(model: str) -> str:
    """Raises NotFound."""
    return _storable(model, "model")


def trial_numbered(session: ReadSession, study: Study, number: int) -> Trial:
    """Raises NotFound."""
    found = reads.find_trial(session, study.id, number)
    if found is None:
        raise NotFound(f"study {study.name} has no trial {number}")
    return found


def _storable(name: str, what: str) -> str:
    """PostgreSQL refuses a zero byte in any text: nothing is named so."""
    if "\0" in name:
        raise NotFound(f"no {what} has that name")
    return name


def storable_text(text: str | None, where: str) -> str | None:
    """Text of a query that a database can compare. Raises InvalidInput."""
    if text is not None and "\0" in text:
        raise InvalidInput(f"{where}: it holds a zero byte, which no text of the ledger does")
    return text
