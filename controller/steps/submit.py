"""Submitted: stores everything a study names by digest, freezes its evaluator, and records it."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.decisions.message_signing import signing_key
from controller.decisions.pricing import check_price
from controller.decisions.slots import Request, ResourcePool, never_fits
from controller.places import check_patches, settle_targets
from controller.settings import read_secret
from controller.spec.files import check_files, resolve
from controller.spec.interpreters import placed_interpreters
from controller.spec.loading import resolved
from controller.spec.plan_section import whole_plan
from controller.spec.study import StudySpec
from controller.steps.attempt_specs import (
    CODE_INPUT,
    evaluator_of,
    program_of,
    store_own_code,
    target_options,
)
from controller.wiring import Service
from evaluator.bundle import Bundle, freeze_bundle
from evaluator.comparability import comparison_digest
from evaluator.scores import MetricRange
from ledger import entries as e
from ledger import writes
from ledger.database import WriteSession
from ledger.digests import json_digest
from ledger.errors import InvalidInput
from ledger.records import Json, Objective, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    study_id: str
    name: str
    bundle_digest: str
    target: str
    """Where its trials run."""
    target_reason: str
    """Why `auto` chose no safer one; empty when there is nothing to say."""


def submit_study(
    service: Service,
    spec: StudySpec,
    base: Path,
    *,
    actor: str,
    secret: str | None = None,
    alone: bool = False,
    within: Callable[[WriteSession, Submission], None] | None = None,
) -> Submission:
    """Record a study whose paths are relative to `base`; nothing of it is read from there again.

    Args:
        alone: refuse it (Conflict) while another study of that name has not ended.
        within: called in the transaction that records it; what it raises, nothing is written.
        secret: hex of 32 bytes that replay seeds derive from; drawn at random by default.

    Raises:
        InvalidInput: a file is missing, a split overlaps the other, a budget cannot cover the
            gate. Nothing is written to the ledger then.
    """
    check_files(spec, base)
    spec = placed_interpreters(spec, base)
    check_price(spec)
    _check_secrets(spec)
    spec, why = settle_targets(spec, service.settings)
    _check_size(service, spec)
    spec = _pinned(service, spec)
    bundle = freeze_evaluator(service, spec, base)
    inputs = _store_inputs(service, spec, base)
    stored = _with_digests(service, spec, base, inputs)
    study_id = f"s{secrets.token_hex(5)}"
    entry = _entry(service, stored, inputs, bundle, actor)
    made = _submission(study_id, spec, entry.bundle_digest, why)
    with service.ledger.write() as session:
        writes.create_study(
            session,
            study_id,
            spec=resolved(stored),
            secret=secret or secrets.token_hex(32),
            budgets=_budgets(spec),
            entry=entry,
            only_unfinished=alone,
        )
        if within is not None:
            within(session, made)
    return made


def _check_secrets(spec: StudySpec) -> None:
    """A webhook whose secret is not there would be told nothing, which nobody would notice."""
    for index, one in enumerate(spec.notify):
        if one.secret is None:
            continue
        try:
            signing_key(read_secret(one.secret), one.secret)
        except InvalidInput as error:
            raise InvalidInput(f"notify[{index}].secret: {error}") from None


def _submission(study_id: str, spec: StudySpec, bundle: str, why: str) -> Submission:
    return Submission(
        study_id=study_id,
        name=spec.name,
        bundle_digest=bundle,
        target=spec.target.name,
        target_reason=why,
    )


def _entry(
    service: Service, spec: StudySpec, inputs: Mapping[str, str], bundle: Bundle | None, actor: str
) -> e.StudySubmitted:
    """Of a study whose paths are digests by now."""
    bundle_digest = bundle.digest if bundle is not None else ""
    objective = Objective(metric=spec.objective.metric, direction=spec.objective.direction)
    environment = _environment(service, spec)
    return e.StudySubmitted(
        name=spec.name,
        spec_digest=json_digest(resolved(spec)),
        bundle_digest=bundle_digest,
        comparison=comparison_digest(
            bundle=bundle_digest,
            code=inputs.get(CODE_INPUT, ""),
            environment=environment,
            inputs=inputs,
            objective=objective,
        ),
        seed=spec.seed,
        actor=actor,
        inputs=inputs,
        environment=environment,
    )


def _pinned(service: Service, spec: StudySpec) -> StudySpec:
    """The study with its images by digest: a tag may be another image tomorrow."""
    training = service.training_target(spec)
    check_patches(spec, training, service.evaluating_target(spec), service.settings)
    training.check_options(target_options(spec.target))
    image = training.pin(program_of(spec)).image
    evaluator = service.evaluating_target(spec).pin(evaluator_of(spec, ())).image
    return spec.model_copy(
        update={
            "target": spec.target.model_copy(update={"image": image}),
            "evaluator": spec.evaluator.model_copy(update={"image": evaluator}),
        }
    )


def _environment(service: Service, spec: StudySpec) -> str:
    """What of the places where it runs may change a result; both, where they differ."""
    program, evaluator = program_of(spec), evaluator_of(spec, ())
    training = service.training_target(spec).fingerprint(program)
    if spec.evaluator.mode == "reported":
        return training
    evaluating = service.evaluating_target(spec).fingerprint(evaluator)
    return training if evaluating == training else f"{training}; evaluated by {evaluating}"


def _check_size(service: Service, spec: StudySpec) -> None:
    """Refuse a trial larger than the whole machine: it would wait for ever."""
    if service.training_target(spec).is_shared:
        return  # the cluster's own size counts there
    settings, resources = service.settings, spec.resources
    machine = ResourcePool(
        cpus=settings.cpus, memory_bytes=settings.memory_bytes, gpu_ids=settings.gpu_ids
    )
    request = Request(
        cpus=resources.cpus, memory_bytes=resources.memory_bytes or 0, gpus=resources.gpus
    )
    problem = never_fits(machine, request)
    if problem is not None:
        raise InvalidInput(problem)


def freeze_evaluator(service: Service, spec: StudySpec, base: Path) -> Bundle | None:
    """The evaluator that a study file names, stored; None: its program reports its own score."""
    evaluator = spec.evaluator
    if evaluator.mode == "reported":
        return None
    directory = None if evaluator.bundle is None else resolve(base, evaluator.bundle)
    splits_base = base if directory is None else directory
    return freeze_bundle(
        service.store,
        directory=directory,
        program=evaluator.program,
        splits={name: resolve(splits_base, path) for name, path in evaluator.splits.items()},
        argv=evaluator.argv,
        mode=evaluator.mode,
        metrics={
            n: MetricRange(low=m.low, high=m.high, resolution=m.resolution)
            for n, m in evaluator.metrics.items()
        },
        options=_json(evaluator.options),
    )


def _store_inputs(service: Service, spec: StudySpec, base: Path) -> dict[str, str]:
    """Mount name to tree digest of the base model, the data, and a built-in program's code."""
    inputs = {
        name: _store(service, resolve(base, path)) for name, path in spec.program.data.items()
    }
    if spec.program.base is not None:
        inputs["base"] = _store(service, resolve(base, spec.program.base))
    if spec.program.kind != "command":
        inputs[CODE_INPUT] = store_own_code(service.store)
    return inputs


def _store(service: Service, path: Path) -> str:
    if path.is_dir():
        return service.store.put_tree(path)
    return service.store.put_tree(path.parent, [path.name])


def _with_digests(
    service: Service, spec: StudySpec, base: Path, inputs: Mapping[str, str]
) -> StudySpec:
    """The study file with every path of the program replaced by the digest of its content, and
    with its whole plan."""
    program = spec.program
    source = program.source
    brief = None if program.brief is None else resolve(base, program.brief)
    return spec.model_copy(
        update={
            "program": program.model_copy(
                update={
                    "brief": None if brief is None else service.store.put_file(brief),
                    "source": None if source is None else _store(service, resolve(base, source)),
                    "base": inputs.get("base"),
                    "data": {name: inputs[name] for name in program.data},
                    "plan": whole_plan(spec),
                }
            )
        }
    )


def _budgets(spec: StudySpec) -> dict[Resource, float | None]:
    budget = spec.budget
    gpu_hours = budget.gpu_hours
    return {
        Resource.TRIALS: budget.trials,
        Resource.WALL_S: budget.wall_time_s,
        Resource.GPU_S: None if gpu_hours is None else gpu_hours * 3600.0,
        Resource.LLM_TOKENS: budget.llm_tokens,
        Resource.LLM_COST_USD: budget.llm_cost_usd,
    }


def _json(options: Mapping[str, object]) -> dict[str, Json]:
    """The options as the strict JSON that the study file's reader made sure they are."""
    return dict(options)  # type: ignore[arg-type]  # the reader refuses everything else
