"""Plans that a program's other settings, or what the study mounts, contradict.

A setting that is an axis by another name is told by `kinds`. What is here is none by itself, but
decides one: the axis is valid, the setting is valid, and the program can only do one of them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from inner_trials.planning.axes import AUTO, NONE, Plan, PlanRefused, placement_of

Settings: TypeAlias = Mapping[str, object]
"""The program's options and parameters, by name."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a study says of a program beside its plan."""

    kind: str
    settings: Settings
    inputs: Collection[str]

    def number(self, name: str, default: float) -> float:
        value = self.settings.get(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if is_number and isinstance(value, int | float) else default

    def word(self, name: str) -> str:
        value = self.settings.get(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Contradiction:
    kinds: tuple[str, ...]
    axis: str
    """What the plan says; the setting beside it is in the rule."""
    settings: tuple[str, ...]
    """Whose values matter, so that a search over them is looked at again."""
    breaks: Callable[[Plan, Said], bool]
    rule: str
    fix: str


_WEIGHTS: Final = {"grpo": ("beta", 0.0), "ppo": ("kl_coef", 0.05)}
"""By kind, the setting that weighs the distance from a reference, and its default."""
_ONLINE: Final = ("grpo", "ppo")
_SAMPLING: Final = (*_ONLINE, "rejection_sampling")


def _weight(said: Said) -> float:
    return said.number(*_WEIGHTS[said.kind])


def holds_reference(kind: str, settings: Settings) -> bool:
    """Whether the program of that kind weighs the distance from a reference as it samples."""
    return kind in _WEIGHTS and _weight(Said(kind, settings, ())) > 0


def _is_beside(plan: Plan, said: Said) -> bool:
    """Whether something else samples than the trainer itself."""
    return plan.rollout == "disaggregated" or said.word("generation") not in ("", "transformers")


CONTRADICTIONS: Final = (
    Contradiction(
        ("grpo",),
        "sync_payload",
        ("generation",),
        lambda p, s: s.word("generation") == "vllm_server" and p.sync_payload == "adapter",
        "generation: vllm_server is TRL's server, which is sent whole weights",
        "write generation: vllm_adapters, or sync_payload: canonical",
    ),
    Contradiction(
        ("grpo",),
        "sync_payload",
        ("generation",),
        lambda p, s: s.word("generation") == "vllm_adapters" and p.sync_payload != "adapter",
        "generation: vllm_adapters sends the adapter alone",
        "write sync_payload: adapter, or generation: vllm_server",
    ),
    Contradiction(
        ("grpo",),
        "sync_payload",
        (),
        lambda p, s: placement_of(p) == "bounded_async" and p.sync_payload != "adapter",
        "the built-in program's asynchronous actors read each update's adapter",
        "write sync_payload: adapter, with parameterization: lora",
    ),
    Contradiction(
        ("grpo",),
        "parameterization",
        (),
        lambda p, s: p.sync_payload == "adapter" and p.parameterization == "qlora",
        "the actors' base is not the 4-bit one that the adapter belongs to",
        "write parameterization: lora, or rollout: colocated",
    ),
    Contradiction(
        ("grpo",),
        "rollout",
        ("vllm_server", "vllm_python"),
        lambda p, s: (
            p.rollout == "disaggregated"
            and not s.word("vllm_server")
            and not s.word("vllm_python")
        ),
        "the program is told of no server that samples for it",
        "name one in options.vllm_server, or in options.vllm_python what starts one; or write"
        " rollout: colocated",
    ),
    Contradiction(
        ("grpo",),
        "trainer",
        ("generation",),
        lambda p, s: p.trainer != "single" and _is_beside(p, s),
        "the built-in program samples by itself where it trains in several processes",
        "write trainer: single, or generation: transformers",
    ),
    Contradiction(
        ("grpo",),
        "trainer",
        ("environment",),
        lambda p, s: p.trainer != "single" and s.word("environment") != "",
        "episodes of several turns are not in step between processes",
        "write trainer: single, or leave options.environment out",
    ),
    Contradiction(
        ("grpo",),
        "rollout_gpus",
        ("vllm_tensor_parallel",),
        lambda p, s: (p.rollout_gpus or 10**9) < s.number("vllm_tensor_parallel", 1.0),
        "options.vllm_tensor_parallel splits one vLLM over more GPUs",
        "write both alike",
    ),
    Contradiction(
        _SAMPLING,
        "rollout_precision",
        (),
        lambda p, s: p.rollout == "colocated" and p.rollout_precision != p.train_precision,
        "the built-in program samples in the precision that it trains in",
        "leave it out, or write rollout: disaggregated",
    ),
    Contradiction(
        _ONLINE,
        "reference",
        ("beta", "kl_coef"),
        lambda p, s: p.reference == NONE and _weight(s) > 0,
        "options.beta (grpo) or kl_coef (ppo) weighs the distance from a reference",
        "write 0 there, or leave reference out",
    ),
    Contradiction(
        _ONLINE,
        "reference",
        ("beta", "kl_coef"),
        lambda p, s: p.reference not in (AUTO, NONE) and _weight(s) == 0,
        "with options.beta (grpo) or kl_coef (ppo) 0 nothing is held against it",
        "write more than 0 there, or reference: none",
    ),
    Contradiction(
        _ONLINE,
        "reference",
        (),
        lambda p, s: p.reference == "copy" and p.parameterization != "full",
        "with an adapter the reference is the base under it",
        "write reference: adapter, or leave it out",
    ),
    Contradiction(
        ("dpo",),
        "reference",
        (),
        lambda p, s: p.reference == "adapter" and "reference" in s.inputs,
        "the study mounts an input reference, which is another model",
        "write reference: copy, or leave that input out of program.data",
    ),
    Contradiction(
        ("grpo",),
        "reward",
        ("environment",),
        lambda p, s: p.reward != "environment" and s.word("environment") != "",
        "options.environment gives the reward",
        "write reward: environment, or leave options.environment out",
    ),
    Contradiction(
        ("grpo",),
        "reward",
        ("environment",),
        lambda p, s: p.reward == "environment" and s.word("environment") == "",
        "no environment is named",
        "name one in options.environment, or write reward: verifier",
    ),
    Contradiction(
        _SAMPLING,
        "reward",
        (),
        lambda p, s: p.reward == "learned" and "reward" not in s.inputs,
        "the study mounts no reward model",
        "mount one as reward in program.data, or write reward: verifier",
    ),
    Contradiction(
        ("rejection_sampling",),
        "reward",
        (),
        lambda p, s: p.reward == "verifier" and "reward" in s.inputs,
        "the study mounts a reward model, which judges in the verifier's place",
        "write reward: learned, or leave that input out of program.data",
    ),
)


def contradictions(
    plan: Plan, kind: str, settings: Settings, inputs: Collection[str]
) -> Iterator[PlanRefused]:
    """What of a valid plan the program's settings, or what is mounted, do not go with."""
    said = Said(kind, settings, inputs)
    for each in CONTRADICTIONS:
        if kind in each.kinds and each.breaks(plan, said):
            yield PlanRefused(each.axis, getattr(plan, each.axis), each.rule, each.fix)


def deciding(kind: str) -> frozenset[str]:
    """The settings of a kind that can contradict its plan though they are no axes."""
    return frozenset(
        name for each in CONTRADICTIONS if kind in each.kinds for name in each.settings
    )
