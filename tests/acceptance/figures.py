"""What the tests of faults measured, a row each, in the file that ARL_RELIABILITY_JSON names."""

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.acceptance.witness import Fact

Figure = int | float | str | None | dict[str, int]


def p95(times_s: Sequence[float]) -> float:
    if len(times_s) < 2:
        return max(times_s, default=0.0)
    return statistics.quantiles(times_s, n=20, method="inclusive")[18]


def spread(times_s: Sequence[float]) -> dict[str, Figure]:
    """Median, 95th percentile and longest."""
    if not times_s:
        return {"recovery_p50_s": None, "recovery_p95_s": None, "recovery_max_s": None}
    return {
        "recovery_p50_s": round(statistics.median(times_s), 3),
        "recovery_p95_s": round(p95(times_s), 3),
        "recovery_max_s": round(max(times_s), 3),
    }


def recoveries(facts: Iterable[Fact], kills: Sequence[float]) -> list[float]:
    """Seconds from each kill to the first entry that the next worker wrote after its claim; kills
    that were followed by another one before that have none of their own."""
    after_claim: list[tuple[float, float]] = []
    claimed_at: float | None = None
    for fact in facts:
        if fact.kind == "worker_claimed":
            claimed_at = fact.at
        elif claimed_at is not None:
            after_claim.append((claimed_at, fact.at))
            claimed_at = None
    found = []
    for kill, following in zip(kills, [*kills[1:], float("inf")], strict=True):
        acted = next((at for claim, at in after_claim if kill <= claim), None)
        if acted is not None and acted < following:
            found.append(acted - kill)
    return found


def publish(row: str, **figures: Figure) -> None:
    """Print a row, and keep it where the operator of the tests wants it."""
    print(json.dumps({row: figures}))
    if name := os.environ.get("ARL_RELIABILITY_JSON"):
        path = Path(name)
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        known[row] = figures
        path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
