"""What a target needs to let an attempt reach the hosts that its study lists, and no other.

The attempt's network has no interface but loopback. Its proxy (proxy.py), one process per
attempt on this machine, checks and records every request and sends what is allowed through a
squid of its own; enter.py makes the socket inside that the program finds the proxy at.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inner_trials import contract
from ledger.errors import InvalidInput, TargetUnavailable
from ledger.records import AttemptKind
from targets import layout
from targets.egress.names import Allowed, BadEntry, parse_entry, parse_ranges
from targets.egress.record import SETTINGS, SOCKET
from targets.protocol import AttemptSpec

PORT: Final = 3128
"""Where the program finds the proxy, on loopback."""
_URL: Final = f"http://127.0.0.1:{PORT}"
_LOCAL: Final = "localhost,127.0.0.1,::1"
ENVIRONMENT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _URL),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), _LOCAL),
}
"""What an attempt with a proxy finds in its environment."""
_KINDS: Final = frozenset({AttemptKind.PREPARE, AttemptKind.TRAIN})
_PACKAGES: Final = str(Path(__file__).resolve().parents[2])
_ENTER: Final = str(Path(__file__).resolve().with_name("enter.py"))
_START: Final = (
    "import sys; sys.path.append(sys.argv[1]); from targets.egress.proxy import main; "
    "main(sys.argv[2])"
)
_SQUIDS: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/local/squid/sbin")


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCar:
    """A container that shares its network with the program's: it is started first, in a network
    with nothing but loopback, and stays until the program ended."""

    mounts: Mapping[str, str]
    """Path inside to path of this machine, both to be read-only."""
    argv: tuple[str, ...]
    """Says `ready` on a line of its stdout once the program may start, or why it may not and
    exits. It needs a Python at the path given."""
    user: str
    """uid:gid that it must run as: ARL's own, whose the mounted socket is."""


def wanted_hosts(spec: AttemptSpec) -> tuple[str, ...]:
    """The hosts an attempt may reach: evaluations and answerers reach none, whatever is asked.

    Raises InvalidInput for a host that is none.
    """
    if spec.kind not in _KINDS:
        return ()
    for index, host in enumerate(spec.egress):
        try:
            parse_entry(host)
        except BadEntry as problem:
            raise InvalidInput(f"egress[{index}] {host!r}: {problem}") from problem
    return spec.egress


def find_squid() -> str | None:
    return shutil.which("squid") or shutil.which("squid", path=os.pathsep.join(_SQUIDS))


def find_problem() -> str | None:
    """Why no attempt can reach any host from this machine, with what to do; None when one can."""
    if find_squid() is None:
        return (
            "the program squid is not installed: install it (apt-get install squid-openssl, or "
            "squid), or remove target.egress"
        )
    return None


def lay_out(directory: str, hosts: Sequence[str], open_ranges: Sequence[str]) -> None:
    """Make the directory of an attempt's proxy. `open_ranges` are address ranges, not public
    ones, that this machine's operator lets programs reach all the same.

    Raises TargetUnavailable, InvalidInput, OSError.
    """
    problem, squid = find_problem(), find_squid()
    if problem is not None or squid is None:
        raise TargetUnavailable(f"network access of the attempt: {problem}")
    Allowed(hosts)
    try:
        parse_ranges(open_ranges)
    except ValueError as error:
        raise InvalidInput(
            f"ARL_EGRESS_ALLOW_RANGES: {error}: write address ranges like 10.20.0.0/16"
        ) from error
    os.mkdir(directory, 0o700)
    settings = {"hosts": list(hosts), "open_ranges": list(open_ranges), "squid": squid}
    Path(directory, SETTINGS).write_text(json.dumps(settings), encoding="utf-8")


def proxy_argv(directory: str) -> tuple[str, ...]:
    """Starts the proxy of a directory that lay_out made. It ends on SIGTERM, having recorded
    what was still open, and when the process that started it ends; it says nothing."""
    return (sys.executable, "-I", "-S", "-c", _START, _PACKAGES, directory)


def proxy_environment(attempt: str, directory: str) -> dict[str, str]:
    """All of the proxy's: the marks by which a recovery finds what an attempt left running."""
    return {
        "PATH": layout.CLEAN_PATH,
        "LANG": "C.UTF-8",
        contract.ATTEMPT: attempt,
        contract.INPUTS: f"{directory}/{layout.INPUTS}",
    }


def enter_argv(directory: str) -> tuple[str, ...]:
    """To be put before a command, which then runs in a new network with nothing but loopback,
    where the proxy of `directory` listens at PORT. Waits for the proxy. When there can be no
    such network or proxy it says so on stderr and exits with status 1."""
    return (sys.executable, "-I", "-S", _ENTER, "--new", f"{directory}/{SOCKET}", str(PORT))


def side_car(directory: str, *, python: str, is_installed: bool = False) -> SideCar:
    """The same for a container, whose own network is one with nothing but loopback already;
    `python` is an interpreter inside. `is_installed`: its image has ARL where this one is."""
    enter = _ENTER if is_installed else "/arl/egress_enter.py"
    return SideCar(
        mounts={"/arl/egress": directory, **({} if is_installed else {enter: _ENTER})},
        argv=(
            *(python, "-I", "-S", enter),
            *("--stay", f"/arl/egress/{SOCKET}", str(PORT)),
        ),
        user=f"{os.geteuid()}:{os.getegid()}",
    )
