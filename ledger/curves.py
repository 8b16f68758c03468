"""Reported values of trials, read back from their batches and thinned out."""

import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.records import IntermediateValue
from ledger.rows import ATTEMPTS, BATCHES, TRIALS

Curve: TypeAlias = tuple[tuple[int, float], ...]
"""(step, value) in the order of reporting."""


def parse_values(payload: str) -> list[IntermediateValue]:
    """A stored batch back to values; NaN and the infinities come back as floats."""
    return [
        IntermediateValue(step=step, metric=metric, value=float(value))
        for step, metric, value in json.loads(payload)
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
        for value in parse_values(payload):
            if metric is None or value.metric == metric:
                yield value


def load_curves(
    session: ReadSession, study_id: str, metric: str, points: int
) -> Mapping[str, Curve]:
    """One metric's values of every trial of a study, about `points` per trial.

    The first and the last value of a trial are always among them.
    """
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
        curve.extend((v.step, v.value) for v in parse_values(payload) if v.metric == metric)
        if len(curve) > 4 * points:  # bounds the memory of one long trial
            curves[trial_id] = thin_out(curve, 2 * points)
    return {
        trial_id: tuple(thin_out(curve, points)) for trial_id, curve in curves.items() if curve
    }


def thin_out(curve: list[tuple[int, float]], points: int) -> list[tuple[int, float]]:
    """At most `points` of the curve (2 or more), evenly spaced, both ends kept."""
    if len(curve) <= points:
        return curve
    stride = (len(curve) - 1) / (points - 1)
    return [curve[round(i * stride)] for i in range(points)]
