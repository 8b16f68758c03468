"""Plots of values alone: their distribution, and which are beaten in no objective."""

from collections.abc import Sequence
from typing import Final

from controller.plots.columns import short
from ledger.records import Json

MOST_ON_FRONT: Final = 500


def edf(values: Sequence[float], points: int) -> dict[str, Json]:
    """The share of trials whose value is at most so much, at evenly spread shares; of values in
    order."""
    count = len(values)
    if count <= points:
        kept = list(range(count))
    else:
        kept = sorted({n * (count - 1) // (points - 1) for n in range(points)})
    return {
        "of": count,
        "sampled": len(kept) < count,
        "value": [short(values[i]) for i in kept],
        "share": [short((i + 1) / count) for i in kept],
    }


def pareto(
    numbers: Sequence[int],
    scores: Sequence[Sequence[float]],
    maximized: Sequence[bool],
    points: int,
) -> dict[str, Json]:
    """Trials in several objectives, and those that no other beats in all of them."""
    signs = [-1.0 if up else 1.0 for up in maximized]
    losses = [tuple(s * v for s, v in zip(signs, row, strict=True)) for row in scores]
    front = front_places(losses)[:MOST_ON_FRONT]
    on_front = set(front)
    others = [i for i in range(len(numbers)) if i not in on_front]
    room = max(0, points - len(front))
    if len(others) > room:
        others = [others[n * len(others) // room] for n in range(room)]
    return {
        "front": _rows(numbers, scores, front),
        "others": _rows(numbers, scores, others),
        "sampled": len(front) + len(others) < len(numbers),
        "used": len(numbers),
    }


def _rows(
    numbers: Sequence[int], scores: Sequence[Sequence[float]], places: Sequence[int]
) -> dict[str, Json]:
    return {
        "number": [numbers[i] for i in places],
        "scores": [[short(value) for value in scores[i]] for i in places],
    }


def front_places(losses: Sequence[tuple[float, ...]]) -> list[int]:
    """Places of those that no other one beats (at most as much in all, less in one); the
    smallest first loss first, equals once."""
    front: list[int] = []
    for place in sorted(range(len(losses)), key=lambda i: losses[i]):
        mine = losses[place]
        beaten = any(
            all(theirs <= own for theirs, own in zip(losses[other], mine, strict=True))
            for other in (front[-1:] if len(mine) == 2 else front)
        )
        if not beaten:
            front.append(place)
    return front
