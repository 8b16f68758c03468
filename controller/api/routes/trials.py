"""Trials: the list, one with what belongs to it, the values it reported, all as CSV."""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from controller.api.models.trials import TrialDetailOut, TrialsPage, ValuesOut
from controller.api.problems import documented
from controller.api.reading import (
    Points,
    Reader,
    StudyName,
    TheService,
    TrialId,
    TrialNumber,
    column_file_of,
    study_named,
    trial_named,
    trial_numbered,
)
from controller.api.routing import new_router
from controller.api.trial_csv import csv_chunks
from controller.api.trial_query import Listed, Wanted
from controller.documents.curves import curve_document, curves_of
from controller.documents.finite import flagged
from controller.documents.network import trial_network_document
from controller.documents.trials import detail_document, trial_document
from ledger import reads
from ledger.database import ReadSession
from ledger.records import Json
from ledger.sort_columns import SortColumns
from ledger.trial_extras import attempt_counts, last_metrics, search_scores
from ledger.trial_pages import count_trials

router = new_router("trials")

MOST_CURVES = 50
_CSV = {"text/csv": {"schema": {"type": "string"}}}


def columns_of(request: Request) -> SortColumns:
    """The app's own, made at its first use."""
    state = request.app.state
    if not hasattr(state, "sort_columns"):
        state.sort_columns = SortColumns(column_file_of(request))
    found: SortColumns = state.sort_columns
    return found


@router.get("/studies/{study}/trials", response_model=TrialsPage, responses=documented(404, 409))
def list_trials(
    request: Request, _: Reader, service: TheService, study: StudyName, asked: Listed
) -> dict[str, Any]:
    """One page of a study's trials, filtered and sorted on the server."""
    where, columns = asked.filter(), columns_of(request)
    with service.ledger.read() as session:
        found = study_named(session, study)
        page = reads.list_trials(
            session,
            found.id,
            where=where,
            sort=asked.sort,
            descending=asked.order == "desc",
            cursor=asked.cursor,
            limit=asked.limit,
            columns=columns,
        )
        total = count_trials(session, found.id, where, columns) if asked.count else None
        items = _rows(session, page.items)
    return {"items": items, "next_cursor": page.next_cursor, "total": total}


def _rows(session: ReadSession, listed: Sequence[reads.ListedTrial]) -> list[dict[str, Json]]:
    ids = [item.trial.id for item in listed]
    scores, metrics = search_scores(session, ids), last_metrics(session, ids)
    attempts = attempt_counts(session, ids)
    return [
        flagged(
            {
                **trial_document(item.trial, item.candidate),
                "proposer": item.candidate.proposer,
                "parent": item.candidate.parent_id,
                "patched": item.candidate.patch is not None,
                "attempts": attempts.get(item.trial.id, 0),
                "scores": scores.get(item.trial.id, {}),
                "metrics": metrics.get(item.trial.id, {}),
            }
        )
        for item in listed
    ]


@router.get(
    "/studies/{study}/trials.csv",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/csv": {"schema": {"type": "string"}}}},
        **documented(404, 409),
    },
)
def export_trials(
    _: Reader, service: TheService, study: StudyName, asked: Wanted
) -> StreamingResponse:
    """The same trials as CSV, all of them, streamed by number."""
    with service.ledger.read() as session:
        found = study_named(session, study)
    headers = {"Content-Disposition": f'attachment; filename="{found.id}-trials.csv"'}
    pieces = csv_chunks(service.ledger, found, asked.filter())
    # What is wrong with a filter shows in the first piece, while it can still be a problem.
    whole = itertools.chain([next(pieces)], pieces)
    return StreamingResponse(whole, media_type="text/csv", headers=headers)


@router.get(
    "/studies/{study}/trials/{number}",
    response_model=TrialDetailOut,
    responses=documented(404, 409),
)
def show_numbered(
    _: Reader, service: TheService, study: StudyName, number: TrialNumber
) -> dict[str, Any]:
    """The trial with this number in its study."""
    with service.ledger.read() as session:
        trial = trial_numbered(session, study_named(session, study), number)
        return _detail(session, trial.id)


@router.get("/trials/{trial}", response_model=TrialDetailOut, responses=documented(404))
def show_trial(_: Reader, service: TheService, trial: TrialId) -> dict[str, Any]:
    """A trial with its attempts, scores, artifacts, decision and last reported values."""
    with service.ledger.read() as session:
        return _detail(session, trial)


def _detail(session: ReadSession, trial_id: str) -> dict[str, Any]:
    detail = trial_named(session, trial_id)
    study = reads.get_study(session, detail.trial.study_id)
    document = detail_document(detail)
    document["network"] = trial_network_document(session, study, trial_id)
    return flagged(document)


@router.get("/trials/{trial}/values", response_model=ValuesOut, responses=documented(404))
def show_values(
    _: Reader,
    service: TheService,
    trial: TrialId,
    metric: Annotated[
        list[Annotated[str, Query(max_length=200)]] | None,
        Query(max_length=MOST_CURVES, description="Only these; default: the first fifty by name"),
    ] = None,
    points: Points = 500,
) -> dict[str, Any]:
    """What a trial reported while it ran, as curves with at most `points` points each."""
    with service.ledger.read() as session:
        detail = trial_named(session, trial)
        names = [found.metric for found in detail.latest]
        wanted = names[:MOST_CURVES] if metric is None else metric
        curves = curves_of(reads.read_values(session, detail.trial.id), set(wanted))
    listed = [curve_document(name, curves[name], points) for name in wanted if name in curves]
    return {"trial": detail.trial.id, "metrics": names, "curves": listed}
