"""Plot data on the wire: columns instead of rows, sampled on the server, which says so."""

from typing import Literal

from pydantic import Field, JsonValue

from controller.api.models.plot_parts import (
    AxisCells,
    AxisColumn,
    BestColumns,
    CurveColumns,
    ImportanceOut,
    MarkColumns,
    ObjectiveAxis,
    PointColumns,
    ScoreRows,
    SlotRow,
)
from controller.api.models.wire import ISO, Iso, Number, Out, example
from ledger.records import Direction

FinalOutcome = Literal["kept", "discarded", "served", "measured", "pruned", "failed", "cancelled"]
_OUTCOMES: list[JsonValue] = [
    "kept",
    "discarded",
    "served",
    "measured",
    "pruned",
    "failed",
    "cancelled",
]


class Plot(Out):
    """What every plot says of itself."""

    study: str
    metric: str
    direction: Direction
    of: int = Field(description="How many trials there are before sampling.")
    sampled: bool = Field(description="Whether some are left out.")


class HistoryPlot(Plot):
    """Values in the order trials ended; the best so far; the noise around it."""

    model_config = example(
        {
            "study": "st-7f3a",
            "metric": "exact_match",
            "direction": "maximize",
            "of": 2,
            "sampled": False,
            "outcomes": _OUTCOMES,
            "points": {"finish": [1], "number": [0], "value": [0.4], "outcome": [0]},
            "without_value": {"finish": [2], "number": [1], "outcome": [5]},
            "best": {"finish": [1], "number": [0], "value": [0.4]},
            "baseline": [0.38, 0.4],
            "noise_floor": 0.01,
        }
    )
    outcomes: list[FinalOutcome]
    points: PointColumns
    without_value: MarkColumns
    best: BestColumns
    baseline: list[Number] = Field(description="Values of the study's own baseline runs.")
    noise_floor: Number = Field(description="Half the width of the band in which nothing differs.")


class ImportancesPlot(Plot):
    """Which parameters separate the best tenth of the trials from the rest."""

    model_config = example(
        {
            "study": "st-7f3a",
            "metric": "exact_match",
            "direction": "maximize",
            "of": 500,
            "sampled": False,
            "method": "ped_anova",
            "used": 500,
            "why_empty": None,
            "importances": [{"name": "learning_rate", "share": 0.8}],
        }
    )
    method: Literal["ped_anova"]
    used: int
    why_empty: str | None
    importances: list[ImportanceOut]


class CoordinatesPlot(Plot):
    """Parameters beside the value: parallel coordinates, slices."""

    model_config = example(
        {
            "study": "st-7f3a",
            "metric": "exact_match",
            "direction": "maximize",
            "of": 1,
            "sampled": False,
            "outcomes": _OUTCOMES,
            "number": [0],
            "value": [0.4],
            "outcome": [0],
            "axes": [],
        }
    )
    outcomes: list[FinalOutcome]
    number: list[int]
    value: list[Number]
    outcome: list[int]
    axes: list[AxisColumn]


class ContourPlot(Plot):
    """Mean values over two parameters."""

    model_config = example(
        {
            "study": "st-7f3a",
            "metric": "exact_match",
            "direction": "maximize",
            "of": 0,
            "sampled": False,
            "x": AxisCells.model_config["json_schema_extra"]["examples"][0],  # type: ignore[index]  # an example has them
            "y": AxisCells.model_config["json_schema_extra"]["examples"][0],  # type: ignore[index]  # an example has them
            "mean": [[None, 0.4]],
            "count": [[0, 3]],
        }
    )
    x: AxisCells
    y: AxisCells
    mean: list[list[Number]] = Field(description="By row (y), then column (x).")
    count: list[list[int]] = Field(description="Trials in each cell; 0: filled from around.")


class EdfPlot(Plot):
    """How values are distributed."""

    model_config = example(
        {
            "study": "st-7f3a",
            "metric": "exact_match",
            "direction": "maximize",
            "of": 2,
            "sampled": False,
            "value": [0.4, 0.7],
            "share": [0.5, 1.0],
        }
    )
    value: list[Number]
    share: list[float] = Field(description="Of trials whose value is at most that.")


class ParetoPlot(Plot):
    """Trials in several objectives, and those that none beats in all."""

    model_config = example(
        {
            "study": "st-7f3a",
            "metric": "exact_match",
            "direction": "maximize",
            "of": 5,
            "sampled": False,
            "objectives": [{"metric": "exact_match", "direction": "maximize"}],
            "front": {"number": [4], "scores": [[0.7, 12.0]]},
            "others": {"number": [], "scores": []},
            "used": 5,
        }
    )
    objectives: list[ObjectiveAxis]
    front: ScoreRows
    others: ScoreRows
    used: int = Field(description="Trials the front was looked for among.")


class IntermediatePlot(Plot):
    """Curves of the best, the latest and the running trials."""

    model_config = example(
        {
            "study": "st-7f3a",
            "metric": "train/loss",
            "direction": "maximize",
            "of": 40,
            "sampled": True,
            "metrics": ["train/loss"],
            "curves": [],
        }
    )
    metrics: list[str] = Field(description="What trials of this study report.")
    curves: list[CurveColumns]


class TimelinePlot(Plot):
    """When each attempt ran, and beside which others."""

    model_config = example(
        {
            "study": "st-7f3a",
            "metric": "exact_match",
            "direction": "maximize",
            "of": 1,
            "sampled": False,
            "slots": 1,
            "now": ISO,
            "rows": [],
            "before": None,
        }
    )
    slots: int
    now: Iso = Field(description="By the server's clock: where running attempts end for now.")
    rows: list[SlotRow]
    before: int | None = Field(description="Give it back for the trials before these.")
