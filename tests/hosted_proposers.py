"""Proposers for the process of a hosted one: a witness of what it is told, and bad ones."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ledger.digests import sha256_hex
from ledger.records import Params
from ledger.search import History, Proposal, Proposals
from proposers.hosted import Hosted
from proposers.hosted_messages import Build
from proposers.search_space import Int, SearchSpace

SPACE: SearchSpace = {"n": Int(0, 10**9)}
GIVEN_UP_S = (0.01, 0.02)
"""Waits before another process, for tests."""


def hosted(
    make: Callable[..., Any],
    *arguments: Any,
    call_s: float = 60.0,
    idle_s: float = 60.0,
    **how: Any,
) -> Hosted:
    made = partial(_made, make, arguments)
    build = Build(name=make.__name__, make=made, space=SPACE, idle_s=idle_s)
    given: dict[str, Any] = {"is_valid": lambda params: True, **how}
    return Hosted(build, call_s=call_s, retries_after_s=GIVEN_UP_S, **given)


def _made(make: Callable[..., Any], arguments: Any, is_valid: Callable[[Params], bool]) -> Any:
    made = make(*arguments)
    made.is_valid = is_valid
    return made


def pid_of(proposer: object) -> int:
    assert isinstance(proposer, Hosted)
    process = proposer._process
    assert process is not None
    return process.pid


def is_there(pid: int) -> bool:
    """Whether a process is there; one that nobody waited for counts."""
    return Path(f"/proc/{pid}").exists()


def is_gone_soon(pid: int, patience_s: float = 10.0) -> bool:
    until = time.monotonic() + patience_s
    while is_there(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_there(pid)


@dataclass
class Witness:
    """Proposes a number, and says what it was told, word for word."""

    calls: int = 0
    is_valid: Callable[[Params], bool] | None = None

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        self.calls += 1
        told = repr(
            (
                [repr(trial) for trial in history.finished],
                sorted(history.proposed),
                [getattr(history, n) for n in sorted(_SMALL)],
                (count, seed, state),
            )
        )
        items = [
            Proposal(params={"n": history.next_number + i}, rationale=sha256_hex(told.encode()))
            for i in range(count)
        ]
        return Proposals(items=items, state=f"{seed}/{history.next_number}".encode() * 40)


_SMALL = set(History.__dataclass_fields__) - {"finished", "proposed", "sources"}


@dataclass
class Does(Witness):
    """Does something first: a word of `WORDS`."""

    word: str = ""
    argument: Any = None

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        given = WORDS[self.word](self.argument)
        if given is not None:
            return given
        return super().propose(history, count=count, seed=seed, state=state)


def does(word: str, argument: Any = None) -> Does:
    return Does(word=word, argument=argument)


class AsksBack(Witness):
    """Proposes the next numbers that can be trials."""

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        assert self.is_valid is not None
        found: list[Proposal] = []
        number = history.next_number
        while len(found) < count:
            if self.is_valid({"n": number}):
                found.append(Proposal(params={"n": number}))
            number += 1
        return Proposals(items=found)


def cannot_be_built() -> Witness:
    raise ValueError("there is no such thing")


def cannot_be_built_at_first(path: Any) -> Witness:
    if _first_time(path):
        raise ValueError("not yet")
    return Witness()


def _first_time(path: Any) -> bool:
    """Whether what `path` notes has not happened yet; it has, from now on."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _raises(text: Any) -> None:
    raise KeyError(text)


def _has_no_memory(path: Any) -> None:
    if _first_time(path):
        raise MemoryError


def _dies(path: Any) -> None:
    if _first_time(path):
        os.kill(os.getpid(), signal.SIGKILL)


def _always_dies(_: Any) -> None:
    print("the last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _breaks(_: Any) -> None:
    ctypes.string_at(0)


def _hangs(path: Any) -> None:
    if _first_time(path):
        time.sleep(600)


def _hangs_in_c(_: Any) -> None:
    """Inside one call of C that lets no other thread run."""
    print(10 ** (10**9))


def _waits(seconds: Any) -> None:
    time.sleep(seconds)


def _talks(_: Any) -> None:
    for number in range(20_000):
        print(f"line {number} of many", file=sys.stderr)
        print(f"line {number} of many")


def _babbles(_: Any) -> None:
    """Writes to the socket itself."""
    os.write(int(sys.argv[1]), b"\xff" * 4096)
    time.sleep(600)


def _grows(size_bytes: Any) -> None:
    KEPT.append(bytearray(os.urandom(1024) * (size_bytes // 1024)))


def _gives(given: Any) -> Any:
    return given


def _tells(name: Any) -> Proposals:
    """What a variable of the environment is there, and which modules and descriptors there are."""
    files = sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2))
    said = (
        f"{name}={os.environ.get(name)} {os.getcwd()} {files} {len(os.listdir('/proc/self/fd'))}"
    )
    return Proposals(items=[Proposal(params={"n": 1}, rationale=said)])


KEPT: list[bytearray] = []
WORDS: dict[str, Callable[[Any], Proposals | None]] = {
    "raises": _raises,
    "has no memory": _has_no_memory,
    "dies": _dies,
    "always dies": _always_dies,
    "breaks": _breaks,
    "hangs": _hangs,
    "hangs in C": _hangs_in_c,
    "waits": _waits,
    "talks": _talks,
    "babbles": _babbles,
    "grows": _grows,
    "gives": _gives,
    "tells": _tells,
}
