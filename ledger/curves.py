"""Reported values of trials, read back from their batches."""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TypeAlias

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.digests import canonical_json
from ledger.records import IntermediateValue
from ledger.rows import ATTEMPTS, BATCHES, TRIALS

Curve: TypeAlias = tuple[tuple[int, float], ...]
"""(step, value) in the order of reporting."""
Grow: TypeAlias = Callable[[list[tuple[int, float]]], list[tuple[int, float]]]
"""What is kept of a curve once a value came."""


def parse_values(payload: str) -> list[IntermediateValue]:
    """A stored batch back to values; NaN and the infinities come back as floats."""
    return [
        IntermediateValue(step=step, metric=metric, value=float(value))
        for step, metric, value in json.loads(payload)
    ]


def metric_values(payload: str, metric: str) -> list[tuple[int, float]]:
    """(step, value) of one metric in a stored batch: what parse_values gives, without reading
    the others. A batch is canonical JSON, so `,"name",` occurs in it exactly between the step and
    the value of that metric: a quote inside a name would be written with a backslash."""
    pieces = payload.split(f",{canonical_json(metric)},")
    return [
        (int(before[before.rindex("[") + 1 :]), float(after[: after.index("]")].strip('"')))
        for before, after in pairwise(pieces)
    ]


def read_values(
    session: ReadSession, trial_id: str, *, metric: str | None = None
) -> Iterator[IntermediateValue]:
    """Every value a trial reported, of one metric or all, in the order of reporting."""
    query = (
        select(BATCHES.c.payload)
        .join(ATTEMPTS, ATTEMPTS.c.id == BATCHES.c.attempt_id)
        .where(BATCHES.c.trial_id == trial_id)
        .order_by(ATTEMPTS.c.created_at, ATTEMPTS.c.attempt_index, BATCHES.c.sequence)
        .execution_options(yield_per=100)
    )
    for (payload,) in session.connection.execute(query):
        if metric is None:
            yield from parse_values(payload)
        else:
            for step, value in metric_values(payload, metric):
                yield IntermediateValue(step=step, metric=metric, value=value)


def load_curves(
    session: ReadSession, study_id: str, metric: str, grow: Grow | None = None
) -> Mapping[str, Curve]:
    """One metric's values of every trial of a study, put together by `grow`; without it all."""
    query = (
        select(BATCHES.c.trial_id, BATCHES.c.payload)
        .join(TRIALS, TRIALS.c.id == BATCHES.c.trial_id)
        .join(ATTEMPTS, ATTEMPTS.c.id == BATCHES.c.attempt_id)
        .where(TRIALS.c.study_id == study_id)
        .order_by(
            TRIALS.c.number,
            ATTEMPTS.c.created_at,
            ATTEMPTS.c.attempt_index,
            BATCHES.c.sequence,
        )
        .execution_options(yield_per=100)
    )
    curves: dict[str, list[tuple[int, float]]] = {}
    for trial_id, payload in session.connection.execute(query):
        curve = curves.setdefault(trial_id, [])
        for value in metric_values(payload, metric):
            curve.append(value)
            if grow is not None:
                curve = grow(curve)
        curves[trial_id] = curve
    return {trial_id: tuple(curve) for trial_id, curve in curves.items() if curve}
