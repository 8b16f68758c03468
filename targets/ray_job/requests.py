"""What a Ray target is asked for: its options, an attempt's share of a node, its promises."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ledger.errors import InvalidInput
from targets.local_promises import bubblewrap_promises, local_promises
from targets.promises import Promises
from targets.protocol import AttemptSpec, Program
from targets.workspace import check_names

SANDBOXES: Final = ("docker", "bubblewrap", "local")
_OPTIONS: Final = ("address", "sandbox", "storage")
_OWN: Final = {
    "CPU": "resources.cpus",
    "GPU": "resources.gpus",
    "memory": "resources.memory",
    "object_store_memory": "nothing: attempts do not use it",
}


@dataclass(frozen=True, slots=True)
class RayOptions:
    address: str
    storage: str
    sandbox: str | None


def options_of(given: Mapping[str, str]) -> RayOptions:
    """Raises InvalidInput."""
    unknown = sorted(set(given) - set(_OPTIONS))
    if unknown:
        raise InvalidInput(
            f"target.name 'ray' has no option {unknown[0]!r}: write {', '.join(_OPTIONS)}"
        )
    if "storage" not in given:
        raise InvalidInput(
            "target.name 'ray' needs target.storage: a URL that every node reaches, like "
            "file:///mnt/shared/arl or s3://bucket/arl"
        )
    sandbox = given.get("sandbox")
    if sandbox is not None and sandbox not in SANDBOXES:
        raise InvalidInput(f"target.sandbox {sandbox!r}: write one of {', '.join(SANDBOXES)}")
    return RayOptions(given.get("address", "auto"), given["storage"].rstrip("/"), sandbox)


def bundle_of(spec: AttemptSpec) -> dict[str, float]:
    """What one attempt takes of one node, all of it or nothing. Raises InvalidInput."""
    bundle = {"CPU": spec.limits.cpus, "GPU": float(spec.limits.gpus)}
    if spec.limits.memory_bytes is not None:
        bundle["memory"] = float(spec.limits.memory_bytes)
    wanted = spec.options.get("resources") or {}
    if not isinstance(wanted, Mapping):
        raise InvalidInput(f"target.resources {wanted!r}: write amounts by name")
    for kind, amount in wanted.items():
        if kind in _OWN:
            raise InvalidInput(f"target.resources.{kind}: write {_OWN[kind]} instead")
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount <= 0:
            raise InvalidInput(f"target.resources.{kind} {amount!r}: write a number above 0")
        if amount > 1 and not float(amount).is_integer():
            raise InvalidInput(f"target.resources.{kind} {amount!r}: above 1, only whole numbers")
        bundle[kind] = float(amount)
    return {kind: amount for kind, amount in bundle.items() if amount}


def check_spec(spec: AttemptSpec) -> None:
    """What the node's target would refuse, told here. Raises InvalidInput."""
    check_names(spec)
    bundle_of(spec)
    for program in (spec.program, spec.answerer):
        if program is not None:
            _check_program(program)


def _check_program(program: Program) -> None:
    if not program.argv or not program.argv[0]:
        raise InvalidInput("program.argv is empty: write the command to run")
    environment = program.environment
    if any("\0" in part for part in (*program.argv, *environment, *environment.values())):
        raise InvalidInput("program.argv and program.environment must not hold NUL characters")
    if any(not name or "=" in name for name in environment):
        raise InvalidInput("program.environment: a name must not be empty nor hold a '='")


def ray_promises(sandbox: str | None) -> Promises:
    """What the weakest of the targets that a node may choose keeps."""
    return local_promises() if sandbox == "local" else bubblewrap_promises({})
