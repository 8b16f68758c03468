"""What `arl doctor` says of the places where trials may run, and of what they need."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from controller.places import auto_here, options_of
from controller.settings import Settings
from controller.spec.target import TargetSpec
from ledger.errors import ArlError
from targets.egress.access import find_squid
from targets.registry import problem_of

_UNPROTECTED: Final = "until then trials are plain processes of your user: run programs you trust"
_TRY: Final = "`arl doctor --target {}` tries what it promises"
_SYSTEM: Final = "by default with this machine's own system, read-only, as the image"
_LIBRARIES: Final = {"http": ("http", "httpx", "server"), "ray": ("ray", "ray", "ray")}
"""By target: its check's name, what it imports, and the extra that installs it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    """What to do; empty where nothing needs doing."""
    needed: bool = False
    """Whether ARL cannot work without it."""


def version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def target_checks(settings: Settings) -> Iterator[Check]:
    """Each place of this machine, what the remote ones need, and what `auto` is."""
    yield _bubblewrap()
    yield _docker(settings)
    yield _squid()
    for target, (name, library, extra) in _LIBRARIES.items():
        version = version_of(library)
        remedy = "" if version else f"only target {target} needs it: pip install 'arl[{extra}]'"
        yield Check(f"{name} target", bool(version), f"{library} {version or 'missing'}", remedy)
    yield _auto(settings)


def _bubblewrap() -> Check:
    problem = problem_of("bubblewrap", {})
    if problem is None:
        return Check("bubblewrap", True, f"works; {_TRY.format('bubblewrap')}")
    return Check("bubblewrap", False, problem, _UNPROTECTED)


def _docker(settings: Settings) -> Check:
    options = options_of(TargetSpec(name="docker"), settings)
    problem = problem_of("docker", options)
    if problem is not None:
        return Check("docker", False, problem)
    from targets.docker_container.address import address_of
    from targets.docker_container.images import EngineQuestions
    from targets.docker_container.target import engine_warnings

    address = address_of(options)
    try:
        version = EngineQuestions(address).version()
    except ArlError as error:
        return Check("docker", False, str(error))
    found = f"engine {version.get('Version')} at {address}, {_SYSTEM}; {_TRY.format('docker')}"
    return Check("docker", True, found, "; ".join(engine_warnings(version)))


def _squid() -> Check:
    found = find_squid()
    if found is not None:
        return Check("squid", True, f"{found}: trials may have `target.egress`")
    remedy = "only `target.egress` needs it: apt-get install squid-openssl, or squid"
    return Check("squid", False, "not installed", remedy)


def _auto(settings: Settings) -> Check:
    try:
        name, why = auto_here(settings)
    except ArlError as error:
        return Check("target auto", False, str(error))
    if settings.auto_target is not None:
        why = "ARL_TARGET says so"
    return Check("target auto", name != "local", f"{name}{f' ({why})' if why else ''}")
