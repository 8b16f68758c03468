"""One process of a hosted proposer, seen from the worker."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ledger.records import Params
from proposers.hosted_messages import (
    IDLE_EXIT,
    MEMORY_EXIT,
    Answer,
    Build,
    Call,
    Garbled,
    Question,
    receive_answer,
    send_pickled,
)

_PACKAGES: Final = str(Path(__file__).resolve().parent.parent)
_INHERITED: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PYTHONDONTWRITEBYTECODE"),
    # Those by which a person chooses the kernels, and thus the last digits, of numeric libraries.
    *("OPENBLAS_CORETYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA"),
    *("ATEN_CPU_CAPABILITY", "NPY_DISABLE_CPU_FEATURES"),
)
"""Nothing of the worker's secrets."""
_WORDS_BYTES: Final = 4000
"""How much of what it said last is kept for a message."""
_WORDS_LINES: Final = 6
_CRASH: Final = "Fatal Python error"
_GONE_S: Final = 10.0
"""How long a process that was killed, or that closed its socket, may take to be gone."""


class Lost(Exception):
    """The process is gone, or was ended, without an answer; the text says how."""

    def __init__(self, why: str, *, was_idle: bool = False) -> None:
        super().__init__(why)
        self.was_idle = was_idle
        """It had ended by itself because it was not needed."""


class HostedProcess:
    """Starts at once. Calls are made one at a time; `end` from any thread.

    Raises Lost when it cannot be started.
    """

    def __init__(self, build: Build, is_valid: Callable[[Params], bool]) -> None:
        self._is_valid = is_valid
        ours, theirs = socket.socketpair()
        try:
            self._process = _start(theirs)
        except OSError as error:
            ours.close()
            raise Lost(f"could not be started: {error}") from None
        finally:
            theirs.close()
        self._channel = ours
        self._pidfd = os.pidfd_open(self._process.pid)
        self._lock = threading.Lock()
        self._is_asked = False
        self._words = b""
        self._build: Build | None = build
        self._reaper = threading.Thread(target=self._reap, name="arl-hosted", daemon=True)
        self._reaper.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._pidfd >= 0

    def ask(self, call: Call, *, limit_s: float) -> Answer:
        """Raises Lost, and what `is_valid` raises; the process is gone then."""
        with self._lock:
            self._is_asked = True
        try:
            return self._ask(call, limit_s)
        except TimeoutError:
            self.end()
            raise Lost(f"gave no answer in {limit_s:g} s and was ended{self._said()}") from None
        except Garbled as error:
            self.end()
            raise Lost(f"gave what is no answer ({error}) and was ended{self._said()}") from None
        except (EOFError, OSError):
            raise self._lost() from None
        except Exception:
            self.end()
            raise
        finally:
            with self._lock:
                self._is_asked = False
                self._close_if_over()

    def _ask(self, call: Call, limit_s: float) -> Answer:
        until = time.monotonic() + limit_s
        if self._build is not None:
            self._wait_until(until)
            send_pickled(self._channel, self._build)
            self._build = None
        self._wait_until(until)
        send_pickled(self._channel, call)
        while True:
            self._wait_until(until)
            answer = receive_answer(self._channel)
            if not isinstance(answer, Question):
                return answer
            self._wait_until(until)
            send_pickled(self._channel, self._is_valid(answer.params))

    def _wait_until(self, until: float) -> None:
        self._channel.settimeout(max(0.001, until - time.monotonic()))

    def _lost(self) -> Lost:
        """How it ended, which it did by itself or because `end` was called."""
        self._reaper.join(_GONE_S)
        code = self._process.returncode
        self.end()
        if code is None:
            return Lost(f"closed its connection and was ended{self._said()}")
        if code == IDLE_EXIT:
            return Lost("was not needed and had ended", was_idle=True)
        if code == MEMORY_EXIT:
            return Lost(f"had too little memory and ended{self._said()}")
        if code >= 0:
            return Lost(f"ended with exit code {code}{self._said()}")
        return Lost(f"was ended by {_signal_name(-code)}{self._said()}")

    def end(self) -> None:
        """At once, whatever it does; a call under way raises Lost. Idempotent."""
        with self._lock:
            if self._pidfd >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self._reaper.join(_GONE_S)

    def _reap(self) -> None:
        """Keep what it says last, until it is gone: it is no zombie then."""
        errors, lifeline = self._process.stderr, self._process.stdin
        if errors is None or lifeline is None:
            raise ValueError("the process has no pipes")
        with errors, lifeline:
            while piece := os.read(errors.fileno(), 65536):
                self._words = (self._words + piece)[-_WORDS_BYTES:]
            self._process.wait()
        with self._lock:
            os.close(self._pidfd)
            self._pidfd = -1
            self._close_if_over()

    def _close_if_over(self) -> None:
        """Nobody closes a socket that another thread reads from."""
        if self._pidfd < 0 and not self._is_asked:
            self._channel.close()

    def _said(self) -> str:
        words = self._words.decode(errors="replace")
        lines = [line.strip() for line in words.splitlines() if line.strip()]
        crash = [n for n, line in enumerate(lines) if line.startswith(_CRASH)]
        # A crash is told from its innermost call on, an exception towards it.
        shown = lines[crash[-1] :][:_WORDS_LINES] if crash else lines[-_WORDS_LINES:]
        return f"; it said last: {' | '.join(shown)}" if shown else ""


def _start(channel: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "proposers.hosted_child", str(channel.fileno())],
        stdin=subprocess.PIPE,  # its lifeline, see proposers.hosted_child
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(channel.fileno(),),
        start_new_session=True,
        cwd="/",
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """What an interpreter and torch need to start, and one thread: a proposal must not take the
    trials' processors, and sums must not depend on how many there are."""
    kept = {name: os.environ[name] for name in _INHERITED if os.environ.get(name)}
    path = os.pathsep.join(p for p in (_PACKAGES, os.environ.get("PYTHONPATH", "")) if p)
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
    )
    own = {"PYTHONPATH": path, "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
    return {"LANG": "C.UTF-8", **kept, **threads, **own}


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"{name}, as the kernel does when memory runs out" if name == "SIGKILL" else name
