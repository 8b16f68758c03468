"""When each attempt ran, and beside which others: a Gantt chart per slot."""

import heapq
from collections.abc import Sequence

from controller.documents.times import iso
from ledger.records import Attempt, Json


def timeline(attempts: Sequence[tuple[int, Attempt]], now: float) -> dict[str, Json]:
    """Started attempts in order; a slot is the lowest line that is free when one starts."""
    started = sorted(
        ((number, a) for number, a in attempts if a.started_at is not None),
        key=lambda pair: (pair[1].started_at, pair[1].id),
    )
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    slots = 0
    rows: list[Json] = []
    for number, attempt in started:
        begin = attempt.started_at or 0.0
        end = attempt.ended_at if attempt.ended_at is not None else now
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            slot = heapq.heappop(free)
        else:
            slot, slots = slots, slots + 1
        heapq.heappush(busy, (max(end, begin), slot))
        rows.append(
            {
                "attempt": attempt.id,
                "trial": number,
                "kind": str(attempt.kind),
                "split": None if attempt.split is None else str(attempt.split),
                "state": str(attempt.state),
                "reason": None if attempt.reason is None else str(attempt.reason),
                "slot": slot,
                "started_at": iso(begin),
                "ended_at": iso(attempt.ended_at),
            }
        )
    return {"slots": slots, "now": iso(now), "rows": rows}
