"""The targets a study may name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ledger.errors import InvalidInput, UnknownName
from targets.bubblewrap import BubblewrapTarget
from targets.local_process import LocalProcessTarget
from targets.protocol import Target
from targets.workspace import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a target is made of: where it keeps what it needs here, and which one it is."""

    root: Path
    """A directory of its own on this machine; another process that uses the same finds its
    attempts again."""
    store: Store
    host: str
    """This machine's name among workers."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Which engine, endpoint or cluster: the same options mean the same one for ever. See each
    target's class."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """By the name that an option gives: never written anywhere."""
    operator: Mapping[str, str] = field(default_factory=dict)
    """What the operator's settings say about such targets, whichever one it is."""


def _open_ranges(place: Place) -> list[str]:
    return [text for text in place.operator.get("open_ranges", "").split(",") if text]


def _bubblewrap(place: Place) -> Target:
    ranges = _open_ranges(place)
    return BubblewrapTarget(place.root, place.store, host=place.host, open_ranges=ranges)


def _docker(place: Place) -> Target:
    from targets.docker_container.target import DockerTarget

    return DockerTarget(
        place.root,
        place.store,
        host=place.host,
        options=place.options,
        open_ranges=_open_ranges(place),
        own_image=place.operator.get("own_image") or None,
    )


def _docker_problem(options: Mapping[str, str]) -> str | None:
    from targets.docker_container.address import find_problem

    return find_problem(options)


def _http(place: Place) -> Target:
    try:
        from targets.http_job.options import make_http_target
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"target.name 'http' needs the module {error.name}: pip install 'arl[server]'"
        ) from error
    return make_http_target(place)


def _outside(place: Place) -> Target:
    from targets.outside.target import OutsideTarget

    return OutsideTarget(place.root)


def _ray(place: Place) -> Target:
    from targets.ray_job.target import RayTarget

    return RayTarget(place.root, place.store, options=place.options)


TARGETS: Final[Mapping[str, Callable[[Place], Target]]] = {
    "bubblewrap": _bubblewrap,
    "docker": _docker,
    "http": _http,
    "local": lambda place: LocalProcessTarget(place.root, place.store, host=place.host),
    "outside": _outside,
    "ray": _ray,
}


def make_target(name: str, place: Place) -> Target:
    """The target called `name` at `place`. Raises UnknownName, InvalidInput."""
    try:
        make = TARGETS[name]
    except KeyError:
        raise UnknownName(
            f"target.name {name!r} is not known: write one of {', '.join(sorted(TARGETS))}"
        ) from None
    return make(place)


def problem_of(name: str, options: Mapping[str, str]) -> str | None:
    """Why the target of that name cannot be used on this machine, in one line with what to do;
    None when it can, or when only a try will tell."""
    check = _PROBLEMS.get(name)
    return None if check is None else check(options)


_PROBLEMS: Final[Mapping[str, Callable[[Mapping[str, str]], str | None]]] = {
    "bubblewrap": lambda options: BubblewrapTarget.is_available(),
    "docker": _docker_problem,
}
