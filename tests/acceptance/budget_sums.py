"""B, recomputed: a study's budgets after every entry of its chain, in plain arithmetic."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.acceptance.witness import Fact

ALLOWED = 1e-6
UNCHARGED = ("invalid_plan", "imported")
"""Endings of a trial that cost nothing."""


@dataclass
class Line:
    limit: float | None = None
    spent: float = 0.0
    reserved: float = 0.0
    overrun: float = 0.0

    def settle(self, reserved: float, measured: float) -> None:
        """A reservation is given back; what was measured is spent as far as it fits."""
        self.reserved -= reserved
        self.count(measured)

    def count(self, measured: float) -> None:
        fits = measured
        if self.limit is not None:
            fits = min(measured, max(0.0, self.limit - self.spent - self.reserved))
        self.spent += fits
        self.overrun += measured - fits

    def fault(self) -> str | None:
        if self.limit is not None and self.spent + self.reserved > self.limit + ALLOWED:
            return f"{self.spent} + {self.reserved} > {self.limit}"
        if min(self.spent, self.reserved, self.overrun) < -ALLOWED:
            return f"{self} is below zero"
        return None


class Sums:
    """The lines of one study, moved on entry by entry."""

    def __init__(self) -> None:
        names = ("trials", "gpu_s", "llm_tokens", "llm_cost_usd")
        self.lines = {name: Line() for name in names}
        self._held: dict[str, float] = {}

    def move(self, fact: Fact) -> Iterator[str]:
        """Count one entry; what it broke."""
        change = getattr(self, f"_{fact.kind}", None)
        if change is None:
            return
        change(fact.payload)
        for name, line in self.lines.items():
            if fault := line.fault():
                yield f"{fact.chain}/{fact.seq} {fact.kind}: {name}: {fault}"

    def _study_submitted(self, said: Any) -> None:
        for name, limit in said["budgets"].items():
            self.lines.setdefault(name, Line()).limit = limit

    def _budget_changed(self, said: Any) -> None:
        line = self.lines.setdefault(said["resource"], Line())
        line.limit, over, line.overrun = said["limit"], line.overrun, 0.0
        line.count(over)

    def _candidate_proposed(self, said: Any) -> None:
        self.lines["trials"].reserved += said["trial_kind"] == "search"

    def _trial_decided(self, said: Any) -> None:
        if said["trial_kind"] == "search":
            self.lines["trials"].settle(1, 1)

    def _trial_served(self, _: Any) -> None:
        self.lines["trials"].settle(1, 1)

    def _trial_ended(self, said: Any) -> None:
        if said["trial_kind"] == "search":
            self.lines["trials"].settle(1, said["reason"] not in UNCHARGED)

    def _attempt_launching(self, said: Any) -> None:
        self._held[said["attempt_id"]] = said["gpu_s"]
        self.lines["gpu_s"].reserved += said["gpu_s"]

    def _attempt_exited(self, said: Any) -> None:
        self.lines["gpu_s"].settle(self._held.pop(said["attempt_id"], 0.0), said["gpu_s"])

    def _attempt_ended(self, said: Any) -> None:
        """One that was lost while it ran is charged all that was set aside for it."""
        held = self._held.pop(said["attempt_id"], 0.0)
        self.lines["gpu_s"].settle(held, held if said["current"] == "running" else 0.0)

    def _model_calls_reserved(self, said: Any) -> None:
        self.lines["llm_tokens"].reserved += said["tokens"]
        self.lines["llm_cost_usd"].reserved += said["cost_usd"]

    def _model_calls_settled(self, said: Any) -> None:
        self.lines["llm_tokens"].settle(said["reserved_tokens"], said["tokens"])
        self.lines["llm_cost_usd"].settle(said["reserved_cost_usd"], said["cost_usd"])


def overdrawn(
    facts: Iterable[Fact], stored: dict[str, tuple[float | None, float, float, float]]
) -> Iterator[str]:
    """What of a study's entries passes a limit at any moment, and which stored line (limit,
    spent, reserved, overrun) is not what they come to."""
    sums = Sums()
    for fact in facts:
        if fact.kind == "study_imported":  # what another tool spent is not charged here
            return
        yield from sums.move(fact)
    for name, line in sums.lines.items():
        if name == "wall_s":  # counted by the clock and set whole, in no entry
            continue
        counted = (line.limit, line.spent, line.reserved, line.overrun)
        if not all(map(_same, counted, stored[name])):
            yield f"{name}: the entries come to {counted}, the row says {stored[name]}"


def _same(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= ALLOWED * max(1.0, abs(a), abs(b))
