"""A study's trials as CSV, a page at a time: no transaction stays open while a client is slow."""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Final

from ledger.database import Ledger
from ledger.export import exported_page, spreadsheet_cells
from ledger.records import Study
from ledger.trial_extras import every_metric
from ledger.trial_pages import TrialFilter

_FACTS: Final = (
    "number",
    "id",
    "kind",
    "state",
    "reason",
    "detail",
    "verdict",
    "value",
    "candidate_id",
    "candidate_digest",
    "proposer",
    "seed",
    "stage",
    "created_at",
    "started_at",
    "ended_at",
    "duration_s",
)
_SPLITS: Final = ("search", "holdout_a", "holdout_b")


def csv_chunks(ledger: Ledger, study: Study, where: TrialFilter) -> Iterator[str]:
    """The header line, then the trials that fit, by number, in pieces of a few hundred."""
    with ledger.read() as session:
        columns = [*_FACTS, *_declared(study)]
        columns += [f"metrics.{name}" for name in every_metric(session, study.id)]
    columns.append("non_finite")
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    cursor: str | None = None
    while True:
        with ledger.read() as session:
            page, cursor = exported_page(session, study.id, where=where, cursor=cursor)
        writer.writerows(spreadsheet_cells(trial) for trial in page)
        yield text.getvalue()
        text.seek(0)
        text.truncate()
        if cursor is None:
            return


def _declared(study: Study) -> Iterator[str]:
    space, evaluator = study.spec.get("space"), study.spec.get("evaluator")
    if isinstance(space, Mapping):
        yield from (f"params.{name}" for name in space)
    metrics = evaluator.get("metrics") if isinstance(evaluator, Mapping) else None
    if isinstance(metrics, Mapping):
        yield from (f"scores.{split}.{name}" for split in _SPLITS for name in metrics)
