"""What the arms of a hybrid are: read from its options, checked, described, and built."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Final

from pydantic import ValidationError

from ledger.search import FinishedTrial
from proposers import registry
from proposers.hybrid_options import NAME, ArmSpec, HybridOptions, Part
from proposers.protocol import Proposer
from proposers.registry import Registered, Setup

DEFAULT_PATCHER: Final = "llm_diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    label: str
    """Its name, with a number from the second one of that name on."""
    registered: Registered
    proposer: Proposer

    @property
    def is_told_values(self) -> bool:
        """Whether all it understands is points and values: neither sources nor words."""
        return not (self.registered.asks_models or self.registered.writes_patches)


def arm_specs(options: HybridOptions) -> tuple[ArmSpec, ...]:
    """The arms with everything they are given, defaults written out."""
    arms = options.arms
    if arms is None:
        first = "random" if find_spec("optuna") is None else "tpe"
        arms = (ArmSpec(name=first), ArmSpec(name=DEFAULT_PATCHER))
    return tuple(_completed(arm, options) for arm in arms)


def _completed(arm: ArmSpec, options: HybridOptions) -> ArmSpec:
    registered = registry.PROPOSERS.get(arm.name)
    given: dict[str, object] = {}
    if registered is not None and "follows" in registered.options.model_fields:
        given["follows"] = True
    if registered is not None and registered.asks_models and options.endpoints is not None:
        given["endpoints"] = [e.model_dump(mode="json") for e in options.endpoints]
    return ArmSpec(name=arm.name, options={**given, **arm.options})


def parts(options: Mapping[str, object]) -> tuple[Part, ...]:
    """The arms that are registered; none where the options cannot be read."""
    try:
        read = HybridOptions.model_validate(dict(options))
    except ValidationError:
        return ()
    return tuple(
        Part(name=arm.name, options=arm.options, where=f"arms.{place}.options.")
        for place, arm in enumerate(arm_specs(read))
        if arm.name in registry.PROPOSERS and arm.name != NAME
    )


def describe(own: Registered, options: Mapping[str, object]) -> Registered:
    """The facts of a hybrid follow from those of its arms."""
    arms = [registry.describe(part.name, part.options) for part in parts(options)]
    if not arms:
        return own
    extras = {name for arm in arms for name in arm.extra.split(",") if name}
    return replace(
        own,
        exhausts=all(arm.exhausts for arm in arms),
        is_slow=any(arm.is_slow for arm in arms),
        asks_models=any(arm.asks_models for arm in arms),
        spares_models=not all(arm.asks_models for arm in arms),
        writes_patches=any(arm.writes_patches for arm in arms),
        reads_scores=any(arm.reads_scores for arm in arms),
        reads_times=options.get("mode") == "bandit" and options.get("cost") != "trials",
        one_objective=any(arm.one_objective for arm in arms),
        modules=tuple(dict.fromkeys(module for arm in arms for module in arm.modules)),
        extra=",".join(sorted(extras)),
    )


def problems(options: HybridOptions) -> Iterator[tuple[str, str]]:
    """What is wrong with the arms: where, and why."""
    if options.cost == "usd" and options.usd_per_hour is None:
        yield "usd_per_hour", "cost: usd needs to know what an hour of a trial costs"
    if options.arms is None and options.endpoints is None:
        yield (
            "endpoints",
            f"the arms are tpe and {DEFAULT_PATCHER} by default, and that one asks a model; write "
            "its endpoints, or arms",
        )
        return
    for place, arm in enumerate(arm_specs(options)):
        if arm.name not in registry.PROPOSERS or arm.name == NAME:
            able = ", ".join(sorted(name for name in registry.PROPOSERS if name != NAME))
            yield f"arms.{place}.name", f"{arm.name!r} is no arm; write one of {able}"
            continue
        for where, why in registry.option_problems(arm.name, arm.options):
            yield f"arms.{place}.options.{where}", why
        if "release" in arm.options:
            yield (
                f"arms.{place}.options.release",
                "all arms are told the same; write it beside arms, as proposer.options.release",
            )


def build_arms(setup: Setup, options: HybridOptions) -> list[Arm]:
    """Raises UnknownName, InvalidInput."""
    specs = arm_specs(options)
    return [
        Arm(
            label=label,
            registered=registry.describe(spec.name, spec.options),
            proposer=registry.build_proposer(
                spec.name,
                replace(setup, options=registry.read_options(spec.name, spec.options)),
            ),
        )
        for label, spec in zip(labels([spec.name for spec in specs]), specs, strict=True)
    ]


def labels(names: Sequence[str]) -> list[str]:
    """The arms' names: tpe, random, tpe-2."""
    return [
        name if names.index(name) == place else f"{name}-{names[: place + 1].count(name)}"
        for place, name in enumerate(names)
    ]


def signature(arm: Arm, own: str) -> str:
    """Who made a proposal, as it is recorded: hybrid/tpe, and hybrid/llm/fallback where the arm
    itself says that something stepped in."""
    inner = own.partition("/")[2]
    return f"{NAME}/{arm.label}/{inner}" if inner else f"{NAME}/{arm.label}"


def find_arm(trial: FinishedTrial, places: Mapping[str, int]) -> int | None:
    """The place of the arm that suggested a trial; None when it was none of them."""
    made_by = trial.proposer.split("/")
    return places.get(made_by[1]) if len(made_by) > 1 and made_by[0] == NAME else None
