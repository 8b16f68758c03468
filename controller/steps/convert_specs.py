"""Builds the attempts of a conversion: the program that converts, and the one that measures."""

from typing import Final

from controller.steps.attempt_specs import (
    CODE_INPUT,
    conversion_of,
    converted_document,
    evaluator_of,
    limits_of,
    options_of,
    python_of,
    reader_of,
    store_own_code,
)
from controller.steps.context import StepContext
from controller.steps.view import LiveAttempt, LiveTrial
from evaluator.bundle import store_measuring
from evaluator.protocol import DEFAULT_ARGV
from inner_trials import contract
from ledger.records import AttemptKind, Json
from targets.protocol import AttemptSpec, Program

CONTROLLERS_OWN: Final = ("margin", "alpha", "seeds", "python")
"""Settings of a conversion that its program has no use for."""


def convert_spec(ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt) -> AttemptSpec:
    """Our own program on a stored model: no split, no bundle, no network."""
    spec, conversion = ctx.view.spec, conversion_of(ctx.view, trial)
    given = conversion.settings
    frozen = ctx.view.study.inputs
    needed = {"base"} if conversion.method in ("merge", "keep") else {"train"}
    inputs = {name: tree for name, tree in frozen.items() if name in needed}
    inputs |= {CODE_INPUT: store_own_code(ctx.store), "artifact": _source(ctx, trial)}
    chosen = given.get("python") or spec.program.python
    return AttemptSpec(
        name=attempt.name,
        owner=ctx.owner,
        kind=AttemptKind.CONVERT,
        program=Program(
            argv=("{python}", "-P", "-m", "inner_trials.convert"),
            python=python_of(None if chosen is None else str(chosen), spec.target.image),
            image=spec.target.image,
            environment={**_plain(spec.program.environment), "PYTHONPATH": "{code}"},
        ),
        inputs=inputs,
        document=_document(
            trial, "convert", {k: v for k, v in given.items() if k not in CONTROLLERS_OWN}
        ),
        limits=limits_of(ctx, attempt, trial),
        options=options_of(ctx, attempt),
    )


def measure_spec(ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt) -> AttemptSpec:
    """Trusted code that runs the converted and the unconverted model one after the other."""
    if trial.model_digest is None:
        raise ValueError(f"{attempt.id} has nothing to measure")
    return AttemptSpec(
        name=attempt.name,
        owner=ctx.owner,
        kind=AttemptKind.EVALUATE,
        program=reader_of(ctx, trial, evaluator_of(ctx.view.spec, DEFAULT_ARGV)),
        inputs={
            "bundle": store_measuring(ctx.store),
            "artifact": trial.model_digest,
            "unconverted": _source(ctx, trial),
        },
        document=_document(trial, "evaluate", {}) | converted_document(ctx, trial),
        limits=limits_of(ctx, attempt, trial),
        options=options_of(ctx, attempt),
    )


def _source(ctx: StepContext, trial: LiveTrial) -> str:
    """The model that this trial converts."""
    index = int((trial.stage or "").rpartition(":")[2])
    return conversion_of(ctx.view, trial).digests[index]


def _document(trial: LiveTrial, kind: str, options: dict[str, Json]) -> dict[str, Json]:
    return {
        "format": contract.FORMAT,
        "trial": trial.id,
        "kind": kind,
        "parameters": {},
        "seed": trial.seed,
        "options": options,
    }


def _plain(environment: dict[str, str]) -> dict[str, str]:
    """Of a study's environment only what sets how many threads compute."""
    return {name: value for name, value in environment.items() if name.endswith("_NUM_THREADS")}
