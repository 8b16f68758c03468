"""Awkward studies for the dashboard: hardly any trial, no success, no number, no end of words."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.bulk_ledger import fill
from benchmarks.bulk_rows import Shape
from controller.wiring import Service
from ledger.records import Verdict
from ledger.states import StudyState, TrialState
from tests import model_endpoint as m
from tests.acceptance.lab import GRID
from tests.acceptance.llm_study import changes_rate, patched, proposer
from tests.acceptance.shell_study import drive, open_service, submit
from tests.acceptance.test_patched_trials import TRAIN
from tests.e2e_pages import HOSTILE
from tests.ledger_builders import Driven, claim
from tests.ledger_builders import submit as submit_rows

ROWS = (
    "no-trials",
    "one-trial",
    "all-failed",
    "pruned-unreported",
    "not-numbers",
    "one-category",
    "long-names",
    "hostile",
)
"""Written straight into the ledger."""
RUN = ("promoting", "model-answers")
"""Really run."""
FLOAT = {"type": "float", "low": 0.0, "high": 1.0, "log": False}
LONG = "a_word_that_never_ends_" * 9
PROMOTING: dict[str, Any] = {
    **GRID,
    "name": "promoting",
    "budget": {"trials": 3},
    "noise": {},
    "promotion": {"model": "toy", "profile": "quick", "approval": "required"},
}
PATCH = (
    "--- a/rate.sh\n+++ b/rate.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n"
    f"-RATE=0.3\n+RATE=0.8 # {HOSTILE.tag} \u202e {'x' * 400}\n"
)


def fill_bulk(home: Path, *, trials: int) -> None:
    """A completed study of so many trials, and nothing else."""
    service = open_service(home)
    fill(service.ledger, Shape(study_id="bulk", name="bulk", trials=trials, running=False))
    service.close()


def fill_awkward(home: Path, *, trials: int) -> None:
    """Every study of `ROWS` and `RUN`, and `bulk` of so many trials, in the ledger of `home`."""
    service = open_service(home, ARL_ALLOW_UNSANDBOXED_PATCHES="1")
    fill(service.ledger, Shape(study_id="bulk", name="bulk", trials=trials, running=False))
    _plain(service)
    _not_numbers(service)
    _worded(service, "long-names", LONG)
    _worded(service, "hostile", HOSTILE.word)
    drive(service, submit(service, home / "promoting", **PROMOTING))
    with m.model_endpoint(_hostile_model) as endpoint:
        asks = proposer("llm_diff", endpoint.url, parents="best")
        (home / "model").mkdir()
        drive(service, patched(service, home / "model", asks, **_answered()))
    service.close()


def _plain(service: Service) -> None:
    submit_rows(service.ledger, "no-trials", name="no-trials", spec=_spec("loss", {"lr": FLOAT}))
    one = _begun(service, "one-trial", _spec("loss", {"lr": FLOAT, "layers": FLOAT}))
    one.whole_trial(0, 0.5, verdict=Verdict.KEEP)
    failed = _begun(service, "all-failed", _spec("loss", {"lr": FLOAT}))
    pruned = _begun(service, "pruned-unreported", _spec("loss", {"lr": FLOAT}))
    for number in range(6):
        for made, state in ((failed, TrialState.FAILED), (pruned, TrialState.PRUNED)):
            made.record(made.proposed(number), made.launching(number))
            made.record(made.started(number))
            made.record(made.ended(number, TrialState.RUNNING, state))
    choices = {"type": "categorical", "choices": ["only"]}
    single = _begun(service, "one-category", _spec("loss", {"optimizer": choices}))
    for number in range(5):
        single.record(single.proposed(number, params={"optimizer": "only"}))
        _finish(single, number, 0.5)


def _not_numbers(service: Service) -> None:
    made = _begun(service, "not-numbers", _spec("loss", {"lr": FLOAT, "layers": FLOAT}))
    ends = (math.nan, math.inf, -math.inf, 1e308, -1e-308, 0.25)
    for number, end in enumerate(ends):
        made.record(made.proposed(number), made.launching(number))
        made.record(made.started(number))
        curve = [(step, "loss", end if step % 3 else 1.0 / step) for step in range(1, 12)]
        made.record(made.values(number, 0, [*curve, (11, "kl", end)]))
        if math.isfinite(end):
            _finish(made, number, end, is_running=True)
        else:
            made.record(made.ended(number, TrialState.RUNNING))


def _worded(service: Service, study: str, word: str) -> None:
    """A study that says `word` wherever a user or a candidate may say something."""
    space = {f"{word} {n}": FLOAT for n in range(8)}
    space[f"{word} choice"] = {"type": "categorical", "choices": [word, f"{word} b"]}
    made = _begun(service, study, _spec(word, space), name=f"{word} study"[:400])
    parent = None
    for number in range(4):
        params: dict[str, Any] = {f"{word} {n}": 0.1 * number for n in range(8)}
        params[f"{word} choice"] = word
        proposed = made.proposed(
            number, params=params, rationale=f"{word} because", patch=PATCH, parent_id=parent
        )
        made.record(replace(proposed, proposer=word[:60]), made.launching(number))
        parent = proposed.candidate_id
        made.record(made.started(number))
        curve = [(step, f"{word} metric", step / 10) for step in range(1, 5)]
        made.record(made.values(number, 0, curve))
        if number == 1:
            made.record(replace(made.ended(1, TrialState.RUNNING), detail=f"{word} broke"))
        else:
            scores = {word: number / 10, f"{word} kl": 0.5}
            _finish(made, number, number / 10, is_running=True, scores=scores)
    made.move(StudyState.RUNNING, StudyState.PAUSED)


def _finish(
    made: Driven,
    number: int,
    value: float,
    *,
    is_running: bool = False,
    scores: Mapping[str, float] | None = None,
) -> None:
    if not is_running:
        made.record(made.launching(number))
        made.record(made.started(number))
    evaluating = made.launching(number, split=made.scored(number, value).split)
    made.record(made.exited(number), made.saved(number), evaluating)
    scored = made.scored(number, value)
    scored = scored if scores is None else replace(scored, scores=dict(scores))
    made.record(
        made.started(number, split=scored.split),
        made.exited(number, split=scored.split),
        scored,
        made.decided(number, value, verdict=Verdict.DISCARD if number else Verdict.KEEP),
    )


def _begun(service: Service, study: str, spec: dict[str, Any], name: str = "") -> Driven:
    submit_rows(service.ledger, study, name=name or study, spec={**spec, "name": name or study})
    made = Driven(service.ledger, study, claim(service.ledger, study))
    made.run_study()
    return made


def _spec(metric: str, space: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": "awkward",
        "objective": {"metric": metric, "direction": "maximize"},
        "space": dict(space),
        "evaluator": {"metrics": {metric: {}}},
        "program": {"kind": "command"},
    }


def _answered() -> dict[str, Any]:
    said = f"echo '{HOSTILE.tag}'; echo '{HOSTILE.shell}'; echo {'y' * 600}; {TRAIN}"
    program = {
        "kind": "command",
        "argv": ["/bin/sh", "-c", said],
        "source": "./program",
        "mutable": ["rate.sh"],
        "mutable_reason": "rate.sh sets a number",
        "brief": "./brief.md",
    }
    return {"name": "model-answers", "program": program, "noise": {}}


def _hostile_model(asked: m.Asked) -> m.Behaviour:
    """It improves the rate, in words that attack whoever reads them."""
    if asked.prompt.count("RATE=0.5") or "RATE=0.7" in asked.prompt:
        return m.says(f"{HOSTILE.tag} {HOSTILE.shell} I will not answer. {'z' * 3000}")
    return changes_rate(asked)
