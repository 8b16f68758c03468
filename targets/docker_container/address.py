"""Which Docker engine a target uses, and whether it answers; without the docker package."""

import importlib.util
import socket
from collections.abc import Iterable, Mapping
from typing import Final

from ledger.errors import InvalidInput
from targets.layout import one_line

DEFAULT: Final = "unix:///var/run/docker.sock"
_SCHEME: Final = "unix://"
_PING: Final = b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n"
_PATIENCE_S: Final = 3.0
_INSTEAD: Final = "or write target.name: bubblewrap"


def address_of(options: Mapping[str, str]) -> str:
    """The engine's address, which must be a socket of this machine: an attempt's directories are
    shown to its containers. Raises InvalidInput."""
    address = options.get("engine", DEFAULT)
    if not address.startswith(f"{_SCHEME}/"):
        raise InvalidInput(
            f"DOCKER_HOST {address!r}: target docker needs an engine on this machine, which it "
            "lends the attempts' directories; write the path of its socket, like "
            f"{DEFAULT}, {_INSTEAD}"
        )
    return address


def socket_of(address: str) -> str:
    """The path of the engine's socket."""
    return address.removeprefix(_SCHEME)


def silence_of(address: str, patience_s: float = _PATIENCE_S) -> str | None:
    """Why the engine does not answer, in a few words; None when it does."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(patience_s)
        try:
            asking.connect(socket_of(address))
            asking.sendall(_PING)
            answer = b""
            while b"\r\n" not in answer and (piece := asking.recv(4096)):
                answer += piece
        except TimeoutError:
            return f"it does not answer within {patience_s:g} s"
        except OSError as error:
            return one_line(error.strerror or str(error))
    status = answer.split(b"\r\n", 1)[0].split(b" ")
    return None if status[1:2] == [b"200"] else f"it answers {answer[:80]!r}"


def runtime_problem(runtime: str, known: Iterable[str], address: str) -> str | None:
    """Why an engine that knows these runtimes cannot use that one; None when it can."""
    if runtime in known:
        return None
    return (
        f"target.runtime {runtime!r}: the Docker engine at {address} has no such one: write one "
        f"of {', '.join(sorted(known))}, or have it installed there"
    )


def find_problem(options: Mapping[str, str]) -> str | None:
    """Why target docker cannot be used here, in one line with what to do; None when it can."""
    try:
        address = address_of(options)
    except InvalidInput as error:
        return str(error)
    silence = silence_of(address)
    if silence is not None:
        return (
            f"no Docker engine answers at {address} ({silence}): start one, let this user use "
            f"its socket (group docker), name another one in DOCKER_HOST, {_INSTEAD}"
        )
    if importlib.util.find_spec("docker") is None:
        return f"the docker package is not installed: pip install 'arl[docker]', {_INSTEAD}"
    return None
