"""The rows of a large study's trials, made up but consistent."""

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.chain import GENESIS
from ledger.digests import canonical_json, sha256_hex

BEGAN = 1_700_000_000.0
ENTRIES_PER_TRIAL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large, and how awkward, the study is."""

    study_id: str = "bulk"
    name: str = "bulk"
    trials: int = 20_000
    params: int = 10
    metrics: int = 10
    steps: int = 1
    """Reports of each metric."""
    words: int = 0
    """Characters of each rationale."""
    seed: int = 0
    running: bool = True
    first: int = 0
    """Number of the first trial; before it the study has others."""
    ended: int = 0
    """How many trials ended before it."""
    head_seq: int = 0
    """Length of the chain before it."""

    def seq_of(self, number: int) -> int:
        """The last entry before a trial's."""
        return self.head_seq + (number - self.first) * ENTRIES_PER_TRIAL


class Rows:
    """The rows of some trials, by table."""

    def __init__(self, shape: Shape, rng: random.Random, numbers: range) -> None:
        self._shape = shape
        self._rng = rng
        self.tables: dict[str, list[dict[str, Any]]] = {
            name: []
            for name in (
                "candidates",
                "trials",
                "attempts",
                "latest_values",
                "value_batches",
                "evaluations",
                "decisions",
                "entries",
            )
        }
        for number in numbers:
            self._trial(number)

    def _trial(self, number: int) -> None:
        shape, rng = self._shape, self._rng
        params: dict[str, Any] = {f"p{i}": rng.random() for i in range(shape.params - 2)}
        params["layers"] = rng.randint(1, 12)
        params["optimizer"] = rng.choice(["adam", "sgd", "lion"])
        value = _score(params) + rng.gauss(0, 0.02)
        ending = rng.random()
        state = "complete" if ending < 0.8 else ("pruned" if ending < 0.9 else "failed")
        trial = f"{shape.study_id}-{number}"
        candidate = f"{shape.study_id}-c{number}"
        at = BEGAN + 10.0 * number
        kept = state == "complete" and rng.random() < 0.01
        self._candidate(candidate, params, at, kept=kept)
        verdict = ("keep" if kept else "discard") if state == "complete" else None
        reasons = {"pruned": "pruned_median", "failed": "exit_nonzero"}
        self.tables["trials"].append(
            {
                "id": trial,
                "study_id": shape.study_id,
                "number": number,
                "kind": "search",
                "candidate_id": candidate,
                "state": state,
                "reason": reasons.get(state, "better" if kept else "worse"),
                "detail": "",
                "seed": number,
                "watermark": number,
                "finish_seq": shape.ended + number - shape.first + 1,
                "splits": "search",
                "family_id": None,
                "stage": None,
                "value": value if state == "complete" else None,
                "verdict": verdict,
                "created_at": at,
                "started_at": at + 1,
                "ended_at": at + 5 + rng.random(),
            }
        )
        if verdict is not None:
            self._decision(trial, verdict)
        self._parts(trial, at, state, value, params)
        self._entries(number, trial, at)

    def _candidate(
        self, candidate: str, params: Mapping[str, Any], at: float, *, kept: bool
    ) -> None:
        shape, rng = self._shape, self._rng
        self.tables["candidates"].append(
            {
                "id": candidate,
                "study_id": shape.study_id,
                "digest": sha256_hex(candidate.encode()),
                "params": canonical_json(params),
                "patch": None,
                "source_digest": None,
                "parent_id": None,
                "rationale": "x" * shape.words,
                "proposer": rng.choice(["tpe", "random", "llm"]),
                "state": "kept" if kept else "discarded",
                "created_at": at,
            }
        )

    def _attempt(self, attempt: str, trial: str, at: float) -> None:
        self.tables["attempts"].append(
            {
                "id": attempt,
                "study_id": self._shape.study_id,
                "trial_id": trial,
                "kind": "train",
                "attempt_index": 0,
                "split": None,
                "state": "collected",
                "reason": None,
                "detail": "",
                "target": "local",
                "handle": None,
                "host": "here",
                "timeout_s": 60.0,
                "cause": "exited",
                "exit_code": 0,
                "wall_s": 4.0,
                "cpu_s": 3.0,
                "max_rss_bytes": 1_000_000,
                "gpu_s_reserved": 0.0,
                "gpu_s_spent": 0.0,
                "created_at": at,
                "started_at": at + 1,
                "ended_at": at + 5,
            }
        )

    def _decision(self, trial: str, verdict: str) -> None:
        self.tables["decisions"].append(
            {
                "trial_id": trial,
                "verdict": verdict,
                "reason": "better" if verdict == "keep" else "worse",
                "compared_with": None,
                "margin": 0.1,
                "noise_floor": 0.02,
            }
        )

    def _parts(
        self, trial: str, at: float, state: str, value: float, params: Mapping[str, Any]
    ) -> None:
        shape, rng = self._shape, self._rng
        attempt = f"{trial}.train-0"
        self._attempt(attempt, trial, at)
        reports = [
            [step, f"m{m}", value + rng.gauss(0, 0.1)]
            for step in range(1, shape.steps + 1)
            for m in range(shape.metrics)
        ]
        payload = json.dumps(reports, separators=(",", ":"))
        self.tables["value_batches"].append(
            {
                "attempt_id": attempt,
                "sequence": 0,
                "trial_id": trial,
                "value_count": len(reports),
                "payload": payload,
                "digest": sha256_hex(payload.encode()),
            }
        )
        self.tables["latest_values"] += [
            {"trial_id": trial, "metric": metric, "step": step, "value": json.dumps(said)}
            for step, metric, said in reports[-shape.metrics :]
        ]
        if state != "complete":
            return
        self.tables["evaluations"].append(
            {
                "trial_id": trial,
                "split": "search",
                "attempt_id": attempt,
                "bundle_digest": "b" * 64,
                "artifact_digest": "d" * 64,
                "value": value,
                "scores": canonical_json({"score": value, "cost": 3.0 - value - params["p0"]}),
                "items": None,
            }
        )

    def _entries(self, number: int, trial: str, at: float) -> None:
        kinds = ("candidate_proposed", "attempt_launching", "trial_decided")
        for place, kind in enumerate(kinds):
            seq = self._shape.seq_of(number) + place + 1
            body = {
                "at": at + place,
                "kind": kind,
                "payload": {"trial_id": trial, "number": number},
                "seq": seq,
            }
            self.tables["entries"].append(
                {
                    "chain": self._shape.study_id,
                    "seq": seq,
                    "kind": kind,
                    "body": canonical_json(body),
                    "digest": entry_digest(seq),
                }
            )


def entry_digest(seq: int) -> str:
    """Made up: nobody verifies such a chain."""
    return sha256_hex(f"{GENESIS}{seq}".encode())


def _score(params: Mapping[str, Any]) -> float:
    bonus = {"adam": 0.2, "sgd": 0.0, "lion": 0.1}[params["optimizer"]]
    value: float = (
        1.0
        - (params["p0"] - 0.3) ** 2 * 3
        + 0.3 * math.sin(6 * params["p1"])
        + bonus
        + params["layers"] / 60
    )
    return value
