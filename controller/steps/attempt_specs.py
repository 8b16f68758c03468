"""Builds the fully pinned AttemptSpec of each kind of attempt from the view."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import inner_trials
from controller.spec.plan_section import plan_document, planned_settings
from controller.spec.study import StudySpec, TargetSpec
from controller.steps.context import StepContext
from controller.steps.view import LiveAttempt, LiveTrial, StudyView
from inner_trials import contract
from ledger.artifacts import ArtifactStore
from ledger.conversion_records import Conversion
from ledger.records import AttemptKind, Json, Params, TrialKind
from targets.protocol import AttemptSpec, Limits, Program

CODE_INPUT: Final = "code"
"""Where the built-in programs' own code is mounted."""
SOURCE_INPUT: Final = "source"


def train_spec(ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt) -> AttemptSpec:
    """The candidate's program: its inputs read-only, no split, no bundle."""
    inputs = dict(ctx.view.study.inputs)
    if trial.source_digest is not None:
        inputs[SOURCE_INPUT] = trial.source_digest
    if trial.resume_digest is not None:
        inputs["resume"] = trial.resume_digest
    return AttemptSpec(
        name=attempt.name,
        owner=ctx.owner,
        kind=AttemptKind.TRAIN,
        program=program_of(ctx.view.spec),
        inputs=inputs,
        document=train_document(ctx.view.spec, trial.params, trial_id=trial.id, seed=trial.seed),
        limits=limits_of(ctx, attempt, trial),
        egress=ctx.view.spec.target.egress,
        options=options_of(ctx, attempt),
    )


def program_of(study: StudySpec) -> Program:
    """What a trial executes, the same for every candidate of the study."""
    spec, image = study.program, study.target.image
    python = python_of(spec.python, image)
    if spec.kind == "command":
        return Program(
            argv=spec.argv or (),
            python=python,
            image=image,
            environment=spec.environment,
            working_input=SOURCE_INPUT if spec.source is not None else None,
        )
    return Program(
        argv=("{python}", "-P", "-m", f"inner_trials.{spec.kind}"),
        python=python,
        image=image,
        environment={**spec.environment, "PYTHONPATH": "{code}"},
    )


def evaluator_of(study: StudySpec, argv: tuple[str, ...]) -> Program:
    """What an evaluation executes, the same for every artifact of the study."""
    image = evaluator_image(study)
    return Program(argv=argv, python=python_of(study.evaluator.python, image), image=image)


def evaluator_image(study: StudySpec) -> str | None:
    """Targets that run no images have none, whatever trials run in."""
    if study.evaluator.image is not None:
        return study.evaluator.image
    same = study.evaluator.target in (None, study.target.name)
    return study.target.image if same else None


def python_of(chosen: str | None, image: str | None) -> str:
    return chosen or (sys.executable if image is None else "python3")


def evaluate_spec(ctx: StepContext, trial: LiveTrial, attempt: LiveAttempt) -> AttemptSpec:
    """The frozen evaluator on one split of a stored artifact."""
    bundle = ctx.bundle
    if bundle is None or attempt.split is None or trial.model_digest is None:
        raise ValueError(f"{attempt.id} cannot be an evaluation")
    spec = ctx.view.spec.evaluator
    inputs = {"artifact": trial.model_digest, "bundle": bundle.code_tree}
    if bundle.splits:
        inputs["split"] = bundle.splits[attempt.split]
    answerer, answerer_inputs = None, {}
    if spec.mode == "answers":
        study = ctx.view.spec
        image = study.target.image if ctx.evaluating is ctx.training else evaluator_image(study)
        answerer = Program(
            argv=spec.answer_argv or (),
            python=python_of(study.program.python, image),
            image=image,
            working_input=SOURCE_INPUT,
        )
        answerer_inputs = {"artifact": trial.model_digest}
        if trial.source_digest is not None:
            answerer_inputs[SOURCE_INPUT] = trial.source_digest
    return AttemptSpec(
        name=attempt.name,
        owner=ctx.owner,
        kind=AttemptKind.EVALUATE,
        program=replace(
            reader_of(ctx, trial, evaluator_of(ctx.view.spec, bundle.argv)),
            environment={contract.SPLIT: str(attempt.split)},
        ),
        options=options_of(ctx, attempt),
        inputs=inputs,
        document={
            "format": contract.FORMAT,
            "trial": trial.id,
            "kind": "evaluate",
            "parameters": {},
            "seed": 0,
            "split": str(attempt.split),
            "options": bundle.options,
            "answer_timeout_s": spec.answer_timeout_s,
            **converted_document(ctx, trial),
        },
        limits=limits_of(ctx, attempt, trial),
        answerer=answerer,
        answerer_inputs=answerer_inputs,
    )


def converted_document(ctx: StepContext, trial: LiveTrial) -> dict[str, Json]:
    """What an evaluator is told of a converted model: how it was made, as nothing in its files
    could say it; nothing of any other."""
    if trial.kind is not TrialKind.CONVERSION:
        return {}
    settings = conversion_of(ctx.view, trial).settings
    kept = ("method", "group_size")
    return {"converted": {name: settings[name] for name in kept if name in settings}}


def reader_of(ctx: StepContext, trial: LiveTrial, program: Program) -> Program:
    """The evaluator's program as it reads this trial's model: a converted one where the libraries
    of its format are."""
    if trial.kind is not TrialKind.CONVERSION:
        return program
    chosen = conversion_of(ctx.view, trial).settings.get("python")
    return program if chosen is None else replace(program, python=str(chosen))


def conversion_of(view: StudyView, trial: LiveTrial) -> Conversion:
    """The conversion that a trial is made for."""
    number = int((trial.stage or "").split(":")[1])
    return next(found for found in view.conversions.values() if found.number == number)


def prepare_spec(ctx: StepContext, attempt: LiveAttempt) -> AttemptSpec:
    """Trusted code that sees everything the study froze, both splits included."""
    inputs = {CODE_INPUT: store_own_code(ctx.store), **ctx.view.study.inputs}
    if ctx.bundle is not None:
        inputs.update({f"split_{split}": tree for split, tree in ctx.bundle.splits.items()})
    return AttemptSpec(
        name=attempt.name,
        owner=ctx.owner,
        kind=AttemptKind.PREPARE,
        program=Program(
            argv=("{python}", "-P", "-m", "inner_trials.prepare"),
            python=python_of(None, evaluator_image(ctx.view.spec)),
            image=evaluator_image(ctx.view.spec),
            environment={"PYTHONPATH": "{code}"},
        ),
        inputs=inputs,
        document={
            "format": contract.FORMAT,
            "trial": ctx.view.study.id,
            "kind": "prepare",
            "parameters": {},
            "seed": ctx.view.study.seed,
            "options": {"program": ctx.view.spec.program.kind, **_pins(ctx.view.spec)},
        },
        limits=limits_of(ctx, attempt, None),
        egress=ctx.view.spec.target.egress,
        options=options_of(ctx, attempt),
    )


def _pins(study: StudySpec) -> dict[str, Json]:
    """The digests of tokenizer and chat template that a study of a built-in program fixes."""
    if study.program.kind == "command":
        return {}
    fixed = study.program.options
    names = ("tokenizer_sha256", "chat_template_sha256")
    return {name: str(fixed[name]) for name in names if fixed.get(name)}


def store_own_code(store: ArtifactStore) -> str:
    """Tree digest of the programs that ARL brings, as this installation has them."""
    package = Path(inner_trials.__file__).parent
    files = [p.relative_to(package.parent).as_posix() for p in sorted(package.rglob("*.py"))]
    return store.put_tree(package.parent, files)


def train_document(
    study: StudySpec, params: Params, *, trial_id: str, seed: int
) -> dict[str, Json]:
    """What the program of a trial reads as params.json: its options with what the plan says to
    them, and the whole plan."""
    options = {**planned_settings(study), **study.program.options}
    return {
        "format": contract.FORMAT,
        "trial": trial_id,
        "kind": study.program.kind,
        "parameters": dict(params),
        "seed": seed,
        "options": options,  # type: ignore[dict-item]  # validated as JSON on reading
        "plan": plan_document(study, params),
    }


def limits_of(ctx: StepContext, attempt: LiveAttempt, trial: LiveTrial | None) -> Limits:
    resources = ctx.view.spec.resources
    evaluating = attempt.kind is AttemptKind.EVALUATE
    cpus = ctx.view.spec.evaluator.cpus if evaluating else None
    return Limits(
        timeout_s=attempt.timeout_s,
        stall_s=None if evaluating else resources.stall_time_s,
        cpus=cpus or resources.cpus,
        memory_bytes=resources.memory_bytes,
        gpus=0 if trial is None else resources.gpus,
        gpu_ids=trial.gpu_ids if trial is not None else (),
        log_bytes=resources.log_bytes,
        output_bytes=resources.output_bytes,
        scratch_bytes=resources.scratch_bytes,
    )


def options_of(ctx: StepContext, attempt: LiveAttempt) -> dict[str, Json]:
    """What the study says to the target that this attempt runs on and to no other."""
    spec = ctx.view.spec.target
    if ctx.target_of(attempt).name != spec.name:
        return {}
    return target_options(spec)


def target_options(spec: TargetSpec) -> dict[str, Json]:
    """The keys of the section that are about attempts, not about which target it is."""
    options: dict[str, Json] = {}
    if spec.runtime is not None:
        options["runtime"] = spec.runtime
    if spec.resources:
        options["resources"] = dict(spec.resources)
    return options
