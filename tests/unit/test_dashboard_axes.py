"""The axes that the dashboard's planner offers are those of the planner."""

import json
from pathlib import Path

from inner_trials.planning.axes import VALUES

OFFERED = Path(__file__).parents[2] / "web" / "src" / "pages" / "plan" / "axes.json"


def test_the_dashboard_offers_every_value_of_every_axis() -> None:
    offered = json.loads(OFFERED.read_text(encoding="utf-8"))
    assert {axis: tuple(values) for axis, values in offered.items()} == dict(VALUES)
