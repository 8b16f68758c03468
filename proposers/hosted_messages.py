"""What a hosted proposer and its process say to each other.

What goes to the process is pickled: it comes from us. What comes back is read as plain data and
nothing else: a JSON document, and the state as it is.
"""

import json
import math
import pickle
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from ledger.records import Params
from ledger.search import FinishedTrial, History, Proposal, Proposals
from ledger.states import Reason
from proposers.host import STATE_BYTES
from proposers.protocol import Proposer
from proposers.search_space import SearchSpace

ANSWER_BYTES: Final = 64 * 1024 * 1024
"""A longer document is not read."""
CALL_BYTES: Final = 4 * 1024 * 1024 * 1024
IDLE_S: Final = 600.0
"""A hundred studies keep no hundred processes."""
IDLE_EXIT: Final = 75
"""Exit code of a process that was not needed for long."""
MEMORY_EXIT: Final = 76
"""Exit code of one that had no memory for a call."""
_LENGTH_BYTES: Final = 8
_PIECE_BYTES: Final = 1024 * 1024


class Garbled(ValueError):
    """What came is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """The first message: what the process is for."""

    name: str
    make: Callable[[Callable[[Params], bool]], Proposer]
    """Called there, with what says whether a point can be a trial: it asks the worker. It goes
    over by its name and its arguments."""
    space: SearchSpace
    idle_s: float = IDLE_S
    """It ends by itself after so long without a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of propose; of the history only what the process does not know yet."""

    history: History
    """Without `finished`, `proposed` and `sources`."""
    starts_over: bool
    """What the process knows of those is void."""
    finished: tuple[FinishedTrial, ...]
    proposed: tuple[str, ...]
    count: int
    seed: int
    state: bytes | None
    has_state: bool
    """Whether the state is the one that the process gave last; `state` is None then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    proposals: Proposals
    memory_bytes: int
    """Of the process, after the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The proposer raised, or broke its contract."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """In the middle of a call: whether a point can be a trial."""

    params: Params


Answer: TypeAlias = Answered | Failed
Verdict: TypeAlias = bool
"""What a question is answered with."""


def send_pickled(channel: socket.socket, message: Build | Call | Verdict) -> None:
    _send(channel, pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def receive_pickled(channel: socket.socket) -> object:
    """A Build, a Call or a Verdict. Raises EOFError when nobody is there any more."""
    found: object = pickle.loads(_receive(channel, CALL_BYTES))
    return found


def send_question(channel: socket.socket, question: Question) -> None:
    _send(channel, json.dumps({"asks": dict(question.params)}).encode())


def send_answer(channel: socket.socket, answer: Answer) -> None:
    state: bytes | None = None
    document: dict[str, object]
    if isinstance(answer, Failed):
        document = {"failed": answer.why}
    else:
        given = answer.proposals
        state = given.state
        document = {
            "items": [_written(item) for item in given.items],
            "retry_after_s": given.retry_after_s,
            "waits_for": given.waits_for,
            "memory_bytes": answer.memory_bytes,
            "has_state": state is not None,
        }
    _send(channel, json.dumps(document).encode())
    if state is not None:
        _send(channel, state)


def receive_answer(channel: socket.socket) -> Answer | Question:
    """Raises EOFError when the process is gone, Garbled for what is no answer, TimeoutError,
    OSError."""
    raw = _receive(channel, ANSWER_BYTES)
    try:
        document: object = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"it is no JSON: {error}") from None
    read = _Document(document)
    if "failed" in read.fields:
        return Failed(why=read.text("failed"))
    if "asks" in read.fields:
        return Question(params=read.params("asks"))
    has_state = read.flag("has_state")
    return Answered(
        proposals=Proposals(
            items=[_read(item) for item in read.items("items")],
            state=_receive(channel, STATE_BYTES) if has_state else None,
            retry_after_s=read.seconds("retry_after_s"),
            waits_for=read.text("waits_for"),
        ),
        memory_bytes=read.count("memory_bytes"),
    )


def _send(channel: socket.socket, data: bytes) -> None:
    channel.sendall(len(data).to_bytes(_LENGTH_BYTES, "big"))
    channel.sendall(data)


def _receive(channel: socket.socket, most_bytes: int) -> bytes:
    length = int.from_bytes(_exactly(channel, _LENGTH_BYTES), "big")
    if length > most_bytes:
        raise Garbled(f"it has {length} bytes; at most {most_bytes} are read")
    return _exactly(channel, length)


def _exactly(channel: socket.socket, length: int) -> bytes:
    pieces: list[bytes] = []
    left = length
    while left:
        piece = channel.recv(min(left, _PIECE_BYTES))
        if not piece:
            raise EOFError
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _written(item: Proposal) -> dict[str, object]:
    return {
        "params": dict(item.params),
        "parent_id": item.parent_id,
        "patch": item.patch,
        "rationale": item.rationale,
        "proposer": item.proposer,
        "defect": item.defect,
        "defect_detail": item.defect_detail,
    }


def _read(item: object) -> Proposal:
    read = _Document(item)
    defect = read.optional("defect")
    try:
        reason = None if defect is None else Reason(defect)
    except ValueError:
        raise Garbled(f"{defect!r} is no reason") from None
    return Proposal(
        params=read.params("params"),
        parent_id=read.optional("parent_id"),
        patch=read.optional("patch"),
        rationale=read.text("rationale"),
        proposer=read.text("proposer"),
        defect=reason,
        defect_detail=read.text("defect_detail"),
    )


class _Document:
    """A mapping whose fields are read by type. All raise Garbled."""

    def __init__(self, document: object) -> None:
        if not isinstance(document, dict):
            raise Garbled(f"it is {type(document).__name__}, no object")
        self.fields: dict[str, object] = document

    def text(self, name: str) -> str:
        found = self.optional(name)
        if found is None:
            raise Garbled(f"{name} is missing")
        return found

    def optional(self, name: str) -> str | None:
        found = self.fields.get(name)
        if not isinstance(found, str | None):
            raise self._wrong(name, "text")
        return found

    def flag(self, name: str) -> bool:
        found = self.fields.get(name)
        if not isinstance(found, bool):
            raise self._wrong(name, "true or false")
        return found

    def count(self, name: str) -> int:
        found = self.fields.get(name)
        if type(found) is not int or found < 0:
            raise self._wrong(name, "a count")
        return found

    def seconds(self, name: str) -> float | None:
        found = self.fields.get(name)
        if found is None:
            return None
        if type(found) not in (int, float) or not 0 <= cast(float, found) < math.inf:
            raise self._wrong(name, "seconds")
        return cast(float, found)

    def items(self, name: str) -> list[object]:
        found = self.fields.get(name)
        if not isinstance(found, list):
            raise self._wrong(name, "a list")
        return found

    def params(self, name: str) -> Params:
        found = self.fields.get(name)
        if not isinstance(found, dict):
            raise self._wrong(name, "an object")
        for value in found.values():
            if not isinstance(value, bool | int | float | str):
                raise self._wrong(name, "parameters")
        return found

    def _wrong(self, name: str, what: str) -> Garbled:
        return Garbled(f"{name} is {type(self.fields.get(name)).__name__}, not {what}")
