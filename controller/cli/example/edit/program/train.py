"""One trial: fits a polynomial to points. A model may change everything here but the format."""

import json
import os
import random
from pathlib import Path

DEGREE = 1
LEARNING_RATE = 0.01
STEPS = 200


def report(step: int, value: float) -> None:
    """For pruning and plots; never the score."""
    line = {"step": step, "metric": "train/loss", "value": value}
    with open(os.environ["ARL_REPORTS"], "a") as reports:
        reports.write(json.dumps(line) + "\n")


def fit(points: list[list[float]], rng: random.Random) -> list[float]:
    weights = [rng.gauss(0.0, 0.1) for _ in range(DEGREE + 1)]
    for step in range(STEPS):
        slopes = [0.0] * len(weights)
        loss = 0.0
        for x, y in points:
            powers = [x**power for power in range(len(weights))]
            off = sum(w * p for w, p in zip(weights, powers, strict=True)) - y
            loss += off * off / len(points)
            for place, power in enumerate(powers):
                slopes[place] += 2 * off * power / len(points)
        weights = [w - LEARNING_RATE * slope for w, slope in zip(weights, slopes, strict=True)]
        if step % 50 == 49:
            report(step + 1, loss)
    return weights


def main() -> None:
    parameters = json.loads(Path(os.environ["ARL_PARAMS"]).read_text())
    points = json.loads(Path("points.json").read_text())
    weights = fit(points, random.Random(parameters["seed"]))
    model = Path(os.environ["ARL_OUTPUT"], "model")
    model.mkdir(parents=True, exist_ok=True)
    (model / "model.json").write_text(json.dumps(weights))


main()
