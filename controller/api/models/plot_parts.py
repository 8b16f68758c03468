"""Parts of plots on the wire: columns, axes, curves."""

from pydantic import Field

from controller.api.models.wire import ISO, Iso, Number, Out, example
from ledger.records import AttemptKind, Direction, Split, Verdict
from ledger.states import AttemptState, Reason, TrialState


class BestColumns(Out):
    """Trials that improved the best value so far, in the order they ended."""

    model_config = example({"finish": [1, 5], "number": [0, 4], "value": [0.4, 0.7]})
    finish: list[int] = Field(description="Place in the order of ending, from 1.")
    number: list[int]
    value: list[Number]


class PointColumns(BestColumns):
    """Trials with a value."""

    model_config = example({"finish": [1], "number": [0], "value": [0.4], "outcome": [0]})
    outcome: list[int] = Field(description="Place in `outcomes`.")


class MarkColumns(Out):
    """Trials that ended without a value."""

    model_config = example({"finish": [2], "number": [1], "outcome": [5]})
    finish: list[int]
    number: list[int]
    outcome: list[int]


class ImportanceOut(Out):
    """One parameter's share."""

    model_config = example({"name": "learning_rate", "share": 0.8})
    name: str
    share: float


class AxisOut(Out):
    """How a parameter is drawn."""

    model_config = example(
        {"name": "lr", "kind": "float", "log": True, "categories": None, "low": 1e-6, "high": 1e-4}
    )
    name: str
    kind: str
    log: bool
    categories: list[str] | None = Field(description="Columns then hold places in this list.")
    low: Number
    high: Number


class AxisColumn(AxisOut):
    """The same with each trial's place on it."""

    model_config = example(
        {
            "name": "lr",
            "kind": "float",
            "log": True,
            "categories": None,
            "low": 1e-6,
            "high": 1e-4,
            "values": [3e-5, None],
        }
    )
    values: list[Number]


class AxisCells(AxisOut):
    """The same cut into cells."""

    model_config = example(
        {
            "name": "lr",
            "kind": "float",
            "log": True,
            "categories": None,
            "low": 1e-6,
            "high": 1e-4,
            "cells": [2e-6, 5e-5],
        }
    )
    cells: list[float | str] = Field(description="The middle of each, or its category.")


class ObjectiveAxis(Out):
    """One objective of a Pareto plot."""

    model_config = example({"metric": "latency", "direction": "minimize"})
    metric: str
    direction: Direction


class ScoreRows(Out):
    """Trials in several objectives."""

    model_config = example({"number": [4], "scores": [[0.7, 12.0]]})
    number: list[int]
    scores: list[list[Number]]


class CurveColumns(Out):
    """What one trial reported of a metric."""

    model_config = example(
        {
            "trial": "st-7f3a-t4",
            "number": 4,
            "state": "complete",
            "verdict": "keep",
            "steps": [1, 2],
            "values": [2.0, None],
        }
    )
    trial: str
    number: int
    state: TrialState
    verdict: Verdict | None
    steps: list[int]
    values: list[Number] = Field(description="Null: it was not finite.")


class SlotRow(Out):
    """One attempt on its line."""

    model_config = example(
        {
            "attempt": "st-7f3a-t4-train0",
            "trial": 4,
            "kind": "train",
            "split": None,
            "state": "collected",
            "reason": None,
            "slot": 0,
            "started_at": ISO,
            "ended_at": ISO,
        }
    )
    attempt: str
    trial: int
    kind: AttemptKind
    split: Split | None
    state: AttemptState
    reason: Reason | None
    slot: int
    started_at: Iso
    ended_at: Iso | None = Field(description="Null: it runs.")
