"""One pass of the gate over a family: finished runs by key, evidence as it accumulates."""

from collections.abc import Mapping, Sequence

from controller.decisions.families import (
    Gate,
    GateVerdict,
    NeedRuns,
    ReplayRun,
    RunRequest,
)
from evaluator.objective import as_maximized
from ledger.records import Json, Split
from ledger.states import FamilyState, Reason


class Progress:
    """What one look at a family knows.

    Scores are held oriented (larger is better) and given back in the metric's unit.
    """

    def __init__(self, gate: Gate, runs: Sequence[ReplayRun]) -> None:
        self.gate = gate
        self.profile = gate.profile
        self.members = tuple(gate.members[: gate.profile.m])
        self.evidence: dict[str, Json] = {}
        self.best = ""
        self._runs = {(r.candidate, r.stage, r.index): r for r in reversed(runs)}
        self._seen: dict[Split, list[float]] = {
            Split.HOLDOUT_A: [self.orient(r.a) for r in gate.pool],
            Split.HOLDOUT_B: [self.orient(r.b) for r in gate.pool],
        }
        self.pool_guards: list[Mapping[str, float]] = [r.guards for r in gate.pool]
        self.pool: dict[Split, list[float]] = {s: list(v) for s, v in self._seen.items()}

    def orient(self, value: float) -> float:
        """Applying it twice gives the value back."""
        if not -float("inf") < value < float("inf"):
            raise ValueError(f"a score of {value} reached the gate")
        return as_maximized(value, self.gate.direction)

    def missing(self, requests: Sequence[RunRequest]) -> NeedRuns | None:
        """What of `requests` has not finished on every split it needs."""
        lacking = tuple(r for r in requests if not self._is_finished(r))
        return NeedRuns(requests=lacking) if lacking else None

    def _is_finished(self, request: RunRequest) -> bool:
        run = self.run(request)
        return run is not None and (
            run.failed or all(_on(run, split) is not None for split in request.splits)
        )

    def run(self, request: RunRequest) -> ReplayRun | None:
        return self._runs.get((request.candidate, request.stage, request.index))

    def scores(self, requests: Sequence[RunRequest]) -> dict[Split, list[float]]:
        """The oriented scores of finished `requests`, per split in their order; a failed run
        gets the worst seen on that split up to and including these."""
        splits = requests[0].splits
        found = {split: [self._score(r, split) for r in requests] for split in splits}
        for split, values in found.items():
            self._seen[split].extend(v for v in values if v is not None)
        return {
            split: [min(self._seen[split]) if v is None else v for v in values]
            for split, values in found.items()
        }

    def _score(self, request: RunRequest, split: Split) -> float | None:
        run = self.run(request)
        value = None if run is None or run.failed else _on(run, split)
        return None if value is None else self.orient(value)

    def combined(self, requests: Sequence[RunRequest]) -> list[float]:
        """Oriented scores over both halves, weighted by their items."""
        scores = self.scores(requests)
        a, b = self.gate.items_a, self.gate.items_b
        return [
            (a * on_a + b * on_b) / (a + b)
            for on_a, on_b in zip(scores[Split.HOLDOUT_A], scores[Split.HOLDOUT_B], strict=True)
        ]

    def failures(self, requests: Sequence[RunRequest]) -> int:
        return sum(1 for r in requests if (run := self.run(r)) is not None and run.failed)

    def guard_value(self, request: RunRequest, metric: str) -> float | None:
        """None when the run failed or did not measure it."""
        run = self.run(request)
        return None if run is None or run.failed else run.guards.get(metric)

    def given_back(self, values: Sequence[float]) -> list[Json]:
        return [self.orient(v) for v in values]

    def end(self, state: FamilyState, reason: Reason) -> GateVerdict:
        return GateVerdict(
            state=state, reason=reason, best=self.best or None, evidence=self.evidence
        )

    def refuse(self, reason: Reason) -> GateVerdict:
        return self.end(FamilyState.REFUSED, reason)


def _on(run: ReplayRun, split: Split) -> float | None:
    return run.a if split is Split.HOLDOUT_A else run.b
