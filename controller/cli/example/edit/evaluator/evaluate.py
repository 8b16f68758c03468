"""Scores a stored polynomial on the points of one split: the root mean square error."""

import json
import math
import os
from pathlib import Path

MOST_COEFFICIENTS = 12
FAR_OFF = 1e6


def read_model(path: Path) -> list[float]:
    """The coefficients. Raises ValueError for anything else: that is no score."""
    if path.stat().st_size > 10_000:
        raise ValueError("model.json is too large")
    found = json.loads(path.read_text())
    if not isinstance(found, list) or not 1 <= len(found) <= MOST_COEFFICIENTS:
        raise ValueError(f"model.json is no list of 1 to {MOST_COEFFICIENTS} coefficients")
    if not all(type(weight) in (int, float) for weight in found):
        raise ValueError("a coefficient is no number")
    return [float(weight) for weight in found]


def error(weights: list[float], points: list[dict[str, float]]) -> float:
    total = 0.0
    for point in points:
        guess = sum(weight * point["x"] ** power for power, weight in enumerate(weights))
        off = abs(guess - point["y"])
        total += min(off, FAR_OFF) ** 2 if math.isfinite(off) else FAR_OFF**2
    return math.sqrt(total / len(points))


inputs = Path(os.environ["ARL_INPUTS"])
lines = (inputs / "split" / "split.jsonl").read_text().splitlines()
score = error(read_model(inputs / "artifact" / "model.json"), [json.loads(line) for line in lines])
with os.fdopen(int(os.environ["ARL_SCORE_FD"]), "w") as channel:
    json.dump({"metrics": {"error": round(score, 6)}}, channel)
