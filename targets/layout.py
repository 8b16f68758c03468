"""Where an attempt's files are and how its record is written. Standard library only: the
supervisor, which must stay small to fork cheaply, imports this and little else.

Below the target's root:
    supervisor.sock, supervisor.lock, supervisor.log
    attempts/<name>/    one directory per attempt, private to the user
        launch.json     all the supervisor needs to start it; written before it is asked
        record.jsonl    boot, subreaper, program, exit, durable: what became of it so far
        params.json, inputs/, work/, output/, home/, reports.jsonl, stop, log, score
        answerer/       the same for the candidate's program in `answers` mode
        egress/         of the proxy, where the attempt may reach hosts; no program sees it
    logs/               logs of released attempts
    trash/              being deleted
"""

import errno
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

PROTOCOL: Final = 2
"""Of the conversation between a controller and a supervisor, and of what launch.json asks."""

ATTEMPTS: Final = "attempts"
LOGS: Final = "logs"
TRASH: Final = "trash"
SOCKET: Final = "supervisor.sock"
LOCK: Final = "supervisor.lock"
SUPERVISOR_LOG: Final = "supervisor.log"

LAUNCH: Final = "launch.json"
RECORD: Final = "record.jsonl"
PARAMS: Final = "params.json"
REPORTS: Final = "reports.jsonl"
STOP: Final = "stop"
INPUTS: Final = "inputs"
WORK: Final = "work"
OUTPUT: Final = "output"
HOME: Final = "home"
SCORE: Final = "score"
LOG: Final = "log"
ANSWERER: Final = "answerer"
ANSWERER_LOG: Final = "answerer.log"
EGRESS: Final = "egress"

SCORE_FD: Final = 3
ASK_FD: Final = 4
ANSWER_FD: Final = 5
STATUS_FD: Final = 6
"""Where a sandbox says whether the program ran; the program does not have it."""

CLEAN_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

MARK: Final = "ARL_MARK"
"""In the environment of a sandbox itself, which what runs in it may read."""

COPIED: Final = "it ran in the ARL_HOME that this one was copied from, and is that one's"
"""Why an attempt is lost here that may go on there."""

NAME_RULE: Final = "1 to 128 letters, digits, '.', '_' or '-', the first not a '.'"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_RECORD_BYTES = 64 * 1024
_FULL_DISK_TRIES = 120
_FULL_DISK_RETRY_S = 0.5

Fact = dict[str, Any]
"""One line of a record; keys are those of the facts below."""


def is_name(text: str) -> bool:
    """Whether `text` may name an attempt: one plain path component."""
    return _NAME.fullmatch(text) is not None


def one_line(text: str) -> str:
    """`text` for a person: control characters gone, at most 500 characters."""
    return _CONTROL.sub(" ", text).strip()[:500]


@contextmanager
def short_path(directory: str) -> Iterator[str]:
    """A short name of `directory`, however long its path is: that of a Unix socket is limited
    to 107 bytes. Valid inside the `with`."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def boot_id() -> str:
    """Changes when the machine restarts: pids of another boot mean nothing."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def process_start(pid: int | str) -> int | None:
    """When a live process started, in clock ticks since boot; None when there is no such one.

    Together with the pid it names a process for good: pids alone are reused.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def append_fact(descriptor: int, fact: Fact) -> None:
    """Append one line to a record in a single write. Raises OSError unless it got there whole.

    It starts with a newline so that a line cut off by a full disk spoils none but itself.
    """
    write_whole(descriptor, f"\n{json.dumps(fact)}\n".encode())


def write_whole(descriptor: int, data: bytes) -> None:
    """In a single write. A disk that gets full in the middle of it takes a part and says so only
    of the next one: raises OSError then, too."""
    if os.write(descriptor, data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def append_fact_surely(descriptor: int, fact: Fact) -> None:
    """The same, waiting up to a minute for space on a full disk (rare: the record has a block
    of its own already). Raises OSError when there is none by then."""
    for tries_left in reversed(range(_FULL_DISK_TRIES)):
        try:
            append_fact(descriptor, fact)
            return
        except OSError:
            if not tries_left:
                raise
            time.sleep(_FULL_DISK_RETRY_S)


def read_record(attempt: str) -> Fact | None:
    """The facts recorded of the attempt in directory `attempt`, merged; the first of a kind
    counts. None when it was never claimed."""
    try:
        descriptor = os.open(
            f"{attempt}/{RECORD}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        )
    except OSError:
        return None
    try:
        data = os.read(descriptor, _RECORD_BYTES)
    finally:
        os.close(descriptor)
    facts: Fact = {}
    for line in data.splitlines():
        if line:
            _merge(facts, line)
    return facts


def read_launch(attempt: str) -> dict[str, Any]:
    """The content of launch.json of the attempt in a directory; empty when there is none that
    can be read."""
    try:
        with open(f"{attempt}/{LAUNCH}", "rb", buffering=0) as file:
            launch = json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return launch if isinstance(launch, dict) else {}


def mark_of(directory: str) -> str:
    """Tells the processes of an attempt's directory from those of its namesake elsewhere, to who
    may not learn where that is."""
    import hashlib  # not at the top: a supervisor needs it only where it finds such processes

    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]


def is_copy(attempt: str) -> bool:
    """Whether the attempt in a directory was laid out in another one that is still there, and is
    here because ARL_HOME was copied: what runs under its name is the other's."""
    return is_elsewhere(read_launch(attempt).get("directory", attempt), attempt)


def is_elsewhere(directory: str, attempt: str) -> bool:
    """Whether they are two: not where the one was moved, or is named by another path."""
    try:
        return not os.path.samefile(directory, attempt)
    except OSError:
        return False  # moved, or deleted meanwhile


def _merge(facts: Fact, line: bytes) -> None:
    try:
        fact = json.loads(line)
    except ValueError:
        return
    if isinstance(fact, dict):
        for key, value in fact.items():
            facts.setdefault(key, value)
