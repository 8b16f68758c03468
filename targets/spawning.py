"""How a subreaper starts a program: its descriptors, session, signals and environment.

Standard library only.
"""

import errno
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from targets import layout, linux

_RESET_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""The two that Python ignores; a program must find them as usual."""

_BUSY_TRIES: Final = 50
_BUSY_RETRY_S: Final = 0.01

Launch = dict[str, Any]
"""The content of launch.json, see targets.workspace."""


def spawn(program: Launch, places: list[tuple[int, int]]) -> int:
    """Start a program in a session of its own with exactly the descriptors in `places`, given as
    (ours, the number it has there); its pid. Changes the working directory of this process.

    Raises OSError, whose filename is what could not be run or entered.
    """
    argv = program["argv"]
    if program["missing"]:
        raise FileNotFoundError(errno.ENOENT, "command not found", argv[0])
    os.chdir(program["cwd"])
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, *place) for place in places]
    for number, path in program.get("opens", ()):
        actions.append((os.POSIX_SPAWN_OPEN, number, path, os.O_RDONLY, 0))
    with _longest_file(program.get("longest_file")) as limit:
        pid = _spawn_patiently(
            argv[0],
            argv,
            program["env"],
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET_SIGNALS,
        )
    if limit is not None:
        with suppress(OSError):  # gone already, or a bubblewrap that is another user's for now
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, limit))  # not to be raised again
    linux.prefer_as_memory_victim(pid)
    return pid


@contextmanager
def _longest_file(wanted: int | None) -> Iterator[int | None]:
    """What is started meanwhile can write no longer file; the limit, None when there is none."""
    if wanted is None:
        yield None
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield limit
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _spawn_patiently(path: str, *arguments: Any, **options: Any) -> int:
    """posix_spawn, again for a moment while the executable is busy: it was written just now, and
    a process forked meanwhile has it open until it executes something."""
    for _ in range(_BUSY_TRIES):
        try:
            return os.posix_spawn(path, *arguments, **options)
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
            time.sleep(_BUSY_RETRY_S)
    return os.posix_spawn(path, *arguments, **options)


def start_answerer(answerer: Launch, errors: int, given: list[int]) -> list[tuple[int, int]]:
    """Start the candidate's program with its stdin and stdout on two new pipes and its stderr on
    `errors`; where the evaluator asks and reads answers, for its `places`. All four ends are
    added to `given`. Raises OSError."""
    questions_out, questions_in = os.pipe()
    answers_out, answers_in = os.pipe()
    given += (questions_out, questions_in, answers_out, answers_in)
    spawn(answerer, [(questions_out, 0), (answers_in, 1), (errors, 2)])
    return [(questions_in, layout.ASK_FD), (answers_out, layout.ANSWER_FD)]
