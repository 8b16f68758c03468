"""Which target a study's attempts run on, and where below ARL's home it keeps its things."""

import hashlib
import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller.settings import Settings, read_secret
from controller.spec.study import StudySpec, TargetSpec
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from targets.outbound_addresses import LOOPBACK, AddressPolicy, parse_policy
from targets.protocol import Target
from targets.registry import TARGETS, Place, problem_of

if TYPE_CHECKING:
    import httpx

log = logging.getLogger("arl.places")

ELSEWHERE: Final = ("http", "outside")
"""Targets that evaluate only what a study says they may."""
PLACE_FILE: Final = "place.json"
"""In the directory of a target that has options: which one it is."""


def options_of(spec: TargetSpec, settings: Settings) -> dict[str, str]:
    """What tells apart the targets of one name: which engine, endpoint or cluster."""
    if spec.name == "docker":
        return {} if settings.docker_host is None else {"engine": settings.docker_host}
    given: dict[str, object] = {}
    if spec.name == "http":
        given = {"url": spec.url, "secret": spec.secret, "machine": spec.machine}
    if spec.name == "ray":
        given = {"address": spec.address, "storage": spec.storage, "sandbox": spec.sandbox}
    return {
        key: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for key, value in given.items()
        if value is not None
    }


def place_of(
    name: str, options: Mapping[str, str], settings: Settings, store: ArtifactStore
) -> Place:
    """Where the target of that name with those options keeps its things; remembered there."""
    if not options:
        return _plain_place(name, settings, store)
    text = json.dumps({"name": name, "options": dict(options)}, sort_keys=True)
    root = settings.home / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not (root / PLACE_FILE).exists():
        root.mkdir(parents=True, exist_ok=True)
        _write(root / PLACE_FILE, text)
    return Place(
        root=root,
        store=store,
        host=settings.host,
        options=options,
        secrets={n: read_secret(n) for n in (options.get("secret"),) if n is not None},
        operator=_operator_of(name, settings),
    )


def _plain_place(name: str, settings: Settings, store: ArtifactStore) -> Place:
    """Of the one target of that name that there is."""
    return Place(
        root=settings.home / name,
        store=store,
        host=settings.host,
        operator=_operator_of(name, settings),
    )


def _operator_of(name: str, settings: Settings) -> dict[str, str]:
    """What the operator says about targets of that name, whatever a study's options are."""
    if name in ("docker", "bubblewrap"):
        return {
            "open_ranges": settings.egress_allow_ranges,
            "own_image": settings.own_image or "",
        }
    if name != "http":
        return {}
    allowed = settings.http_allow_private
    return {
        "allow_private": LOOPBACK if allowed is None else allowed,
        "trust_sandbox": settings.http_trust_sandbox,
    }


def model_policy(settings: Settings) -> AddressPolicy:
    """Which addresses model endpoints may have; every one unless the operator says otherwise."""
    allowed = "1" if settings.models_allow_private is None else settings.models_allow_private
    return parse_policy(allowed, variable="ARL_MODELS_ALLOW_PRIVATE")


def model_transport(settings: Settings) -> "Callable[[], httpx.BaseTransport] | None":
    """What carries requests to model endpoints: to the addresses that the operator lets through;
    None where every address is."""
    if settings.models_allow_private is None:
        return None
    policy = model_policy(settings)

    def make() -> "httpx.BaseTransport":
        from targets.outbound import GuardedTransport

        return GuardedTransport(policy)

    return make


def settle_targets(spec: StudySpec, settings: Settings) -> tuple[StudySpec, str]:
    """The study with its targets named for good, and why `auto` is what it is (else empty).

    Evaluations, and preparing, which sees both splits, run where training does unless the study
    says otherwise, but never on a remote service that it did not name for them.

    Raises InvalidInput.
    """
    name: str = spec.target.name
    why = ""
    if name == "auto":
        name, why = _best_here(settings, for_patches=bool(spec.program.mutable))
    evaluating: str | None = spec.evaluator.target
    if evaluating is None:
        evaluating = _best_here(settings, for_patches=False)[0] if name in ELSEWHERE else name
    if spec.target.egress and "local" in (name, evaluating):
        raise InvalidInput(
            f"target.egress {', '.join(spec.target.egress)}: trials or their preparing would run "
            "on target local, which keeps no program from any host; write target.name: docker or "
            f"bubblewrap and see to it that it works here{f' ({why})' if why else ''}"
        )
    settled = spec.model_copy(
        update={
            "target": spec.target.model_copy(update={"name": name}),
            "evaluator": spec.evaluator.model_copy(update={"target": evaluating}),
        }
    )
    return settled, why


def evaluator_target(spec: StudySpec) -> TargetSpec:
    """The target section that evaluations run by."""
    chosen = spec.evaluator.target
    if chosen is None or chosen == spec.target.name:
        return spec.target
    return TargetSpec(name=chosen)


def check_patches(
    spec: StudySpec, training: Target, evaluating: Target, settings: Settings
) -> None:
    """Refuse code that nobody has read where nothing holds it: where it trains and, in `answers`
    mode, where it answers. Raises InvalidInput."""
    if not spec.program.mutable or settings.allow_unsandboxed_patches:
        return
    places = {"target.name": training}
    if spec.evaluator.mode == "answers":
        places["evaluator.target"] = evaluating
    for key, target in places.items():
        if not target.is_sandbox:
            raise InvalidInput(
                f"{key} {target.name!r}: program.mutable lets a model write code, and this "
                "target does not hold it; write docker or bubblewrap (with ray: target.sandbox), "
                "or let the operator set ARL_ALLOW_UNSANDBOXED_PATCHES=1"
            )


def _best_here(settings: Settings, *, for_patches: bool) -> tuple[str, str]:
    """What the operator set, else the safest target that works on this machine; and why it is
    none safer."""
    if settings.auto_target is not None:
        return _named(settings.auto_target), ""
    problems: list[str] = []
    for name, options in _sandboxes(settings).items():
        problem = problem_of(name, options)
        if problem is None:
            return name, "; ".join(problems)
        problems.append(f"{name}: {problem}")
    if for_patches and not settings.allow_unsandboxed_patches:
        raise InvalidInput(
            "target.name 'auto': program.mutable lets a model write code, and no sandbox works "
            f"here ({'; '.join(problems)}); see to one of them, or ask for no sandbox by name"
        )
    return "local", "no sandbox: trials are plain processes of your user; " + "; ".join(problems)


def auto_here(settings: Settings) -> tuple[str, str]:
    """What target `auto` is on this machine, and why it is none safer (else empty)."""
    return _best_here(settings, for_patches=False)


def used_places(settings: Settings, store: ArtifactStore) -> Iterator[tuple[str, Place]]:
    """The targets that have run something below this home, or may have."""
    if not settings.home.is_dir():
        return
    for directory in sorted(settings.home.iterdir()):
        if directory.name in TARGETS:
            yield directory.name, _plain_place(directory.name, settings, store)
        elif (directory / PLACE_FILE).is_file():
            known = json.loads((directory / PLACE_FILE).read_bytes())
            if known["name"] in TARGETS:
                try:
                    place = place_of(known["name"], known["options"], settings, store)
                except InvalidInput as error:  # its secret is not known any more
                    log.warning(
                        "target %s of %s is left alone: %s", known["name"], directory, error
                    )
                else:
                    yield known["name"], place


def _named(name: str) -> str:
    if name not in ("docker", "bubblewrap", "local"):
        raise InvalidInput(f"ARL_TARGET: {name!r}: write docker, bubblewrap or local")
    return name


def _sandboxes(settings: Settings) -> dict[str, dict[str, str]]:
    """Those of this machine and their options, the best first."""
    return {"docker": options_of(TargetSpec(name="docker"), settings), "bubblewrap": {}}


def _write(path: Path, text: str) -> None:
    """Whole or not at all, also when two processes write it at once."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    beside.write_text(text, encoding="utf-8")
    beside.rename(path)
