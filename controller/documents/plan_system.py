"""The post-training system that a study states: axes, what they imply, memory, rollouts."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from controller.spec.files import resolve
from controller.spec.plan_section import study_plan
from controller.spec.space import baseline_params
from controller.spec.study import StudySpec
from inner_trials.plan import Plan, PlanRefused, rollout_gpu_floor
from inner_trials.planning.axes import NONE, placement_of
from inner_trials.planning.configuration import (
    accelerate_config,
    async_grpo_arguments,
    grpo_arguments,
    vllm_arguments,
    vllm_environment,
)
from inner_trials.planning.contradictions import holds_reference
from inner_trials.planning.implications import Implications, implications
from inner_trials.planning.memory import Memory, Workload, estimate
from inner_trials.planning.model_shape import read_shape
from ledger.errors import InvalidInput
from ledger.records import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What the options of the command say of one update's rollouts; all or nothing."""

    prompts: int | None
    average_tokens: int | None
    tokens_per_second: int | None
    window_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """One update's rollouts, and how many GPUs they take at least."""

    prompts: int
    group_size: int
    average_tokens: int
    tokens_per_second_per_gpu: int
    window_s: int
    tokens: int
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    plan: Plan
    """Of the baseline."""
    implied: Implications
    memory: Memory | None
    no_memory: str
    """Why there is no estimate; else empty."""
    rollouts: Rollouts | None


def system_of(spec: StudySpec, base: Path | None, rates: Rates) -> System | None:
    """The system that a valid study's baseline is; None for a command that states no plan.
    Without `base` no file is opened, and there is no estimate of the memory.

    Raises InvalidInput for rates that are incomplete, not positive, or of a plan without rollouts.
    """
    params = baseline_params(spec.space)
    plan = study_plan(spec, params)
    if plan is None:
        if _given(rates):
            raise InvalidInput("rollout sizing: the study states no program.plan; add one")
        return None
    memory, why = _memory(spec, plan, base, {**spec.program.options, **params})
    return System(
        plan=plan,
        implied=implications(plan),
        memory=memory,
        no_memory=why,
        rollouts=_rollouts(plan, rates),
    )


def _given(rates: Rates) -> bool:
    return any(value is not None for value in asdict(rates).values())


def _rollouts(plan: Plan, rates: Rates) -> Rollouts | None:
    if not _given(rates):
        return None
    if plan.rollout == NONE:
        raise InvalidInput(
            f"rollout sizing: stage {plan.stage} has no rollouts; leave --prompts and the rest out"
        )
    prompts, tokens = rates.prompts, rates.average_tokens
    rate, window_s = rates.tokens_per_second, rates.window_s
    if prompts is None or tokens is None or rate is None or window_s is None:
        raise InvalidInput(
            "rollout sizing: write --prompts, --average-tokens, --tokens-per-second and --window"
        )
    try:
        gpus = rollout_gpu_floor(prompts, plan.group_size, tokens, rate, window_s)
    except ValueError as error:
        raise InvalidInput(f"rollout sizing: {error}") from None
    return Rollouts(
        prompts=prompts,
        group_size=plan.group_size,
        average_tokens=tokens,
        tokens_per_second_per_gpu=rate,
        window_s=window_s,
        tokens=prompts * plan.group_size * tokens,
        gpus=gpus,
    )


def _memory(
    spec: StudySpec, plan: Plan, base: Path | None, settings: Mapping[str, object]
) -> tuple[Memory | None, str]:
    if base is None:
        return None, "the model is not read over HTTP: `arl plan` on its machine estimates it"
    if spec.program.base is None:
        return None, "the study names no program.base"
    try:
        shape = read_shape(resolve(base, spec.program.base))
    except ValueError as error:
        return None, f"program.base cannot be read: {error}"
    return estimate(plan, shape, workload(spec.program.kind, plan, settings)), ""


def workload(kind: str, plan: Plan, settings: Mapping[str, object]) -> Workload:
    """What the program's options say, or its defaults."""

    def count(name: str, default: int) -> int:
        value = settings.get(name)
        is_count = isinstance(value, int | float) and not isinstance(value, bool)
        return int(value) if is_count and isinstance(value, int | float) else default

    sequences = count("per_device_train_batch_size", 16 if kind == "ppo" else 8)
    passes = count("steps_per_generation", 0) or count("gradient_accumulation_steps", 1)
    sampled = {
        "grpo": sequences * passes,
        "ppo": count("rollout_batch_size", 64),
        "rejection_sampling": count("sample_batch_size", 32) * plan.group_size,
    }
    tokens = count("max_length", 1024)
    return Workload(
        sequences=sequences,
        tokens=tokens,
        lora_r=count("lora_r", 16),
        recomputes=settings.get("gradient_checkpointing") is True,
        rollout_sequences=sampled.get(kind, sequences),
        rollout_tokens=tokens,
        keeps_fp32=kind != "command",
        holds_reference=holds_reference(kind, settings),
    )


def system_document(system: System | None) -> dict[str, Json]:
    """The keys that `arl plan --json` has for it."""
    if system is None:
        return dict.fromkeys(("plan", "implies", "memory", "rollouts", "configurations"))
    memory = system.memory
    return {
        "plan": {axis: value for axis, value in asdict(system.plan).items() if axis != "name"},
        "implies": {name: list(words) for name, words in asdict(system.implied).items()},
        "memory": None
        if memory is None
        else {**asdict(memory), "trainer": memory.trainer, "actor": memory.actor},
        "rollouts": None if system.rollouts is None else asdict(system.rollouts),
        "configurations": configurations(system.plan),
    }


def configurations(plan: Plan) -> dict[str, Json]:
    """What launches such a system, by tool; a sentence where a tool cannot."""
    makers: dict[str, Callable[[], object]] = {"accelerate": lambda: accelerate_config(plan)}
    if plan.optimizer == "grpo":
        is_async = placement_of(plan) == "bounded_async"
        trl = async_grpo_arguments if is_async else grpo_arguments
        makers["trl"] = lambda: trl(plan)
    if plan.rollout == "disaggregated":
        makers["vllm"] = lambda: {
            "argv": vllm_arguments(plan, "MODEL"),
            "environment": vllm_environment(plan),
        }
    return {tool: _made(make) for tool, make in makers.items()}


def _made(make: Callable[[], object]) -> Json:
    try:
        return cast("Json", make())
    except PlanRefused as refusal:
        return str(refusal)
