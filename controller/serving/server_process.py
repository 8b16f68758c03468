"""A model server in the foreground: started, waited for, and ended with all that it started."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from controller.serving.commands import Command
from controller.serving.faults import EndpointUnavailable
from controller.signals import ending_signals, heard_by
from inner_trials.own_server import GUARD
from ledger.errors import Conflict, InvalidInput

GRACE_S: Final = 10.0
"""From SIGTERM to SIGKILL."""
PAUSE_S: Final = 0.5
TELL_S: Final = 10.0
_TAIL_BYTES: Final = 20_000


class Ended(Exception):
    """The user, or the system, asks for the end."""


class ModelServer:
    """One started server. A guard between it and this process ends it, and all that it started,
    once this process is gone, however that happens."""

    def __init__(
        self, command: Command, python: str, environment: dict[str, str], log: Path
    ) -> None:
        """Raises InvalidInput, Conflict: it cannot be started so."""
        check_python(python)
        _check_port(str(command.options["host"]), command.options["port"])
        self.url = command.url
        self.log = log
        self._python = python
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", GUARD, *command.argv(python)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env={**environment, **command.environment},
                start_new_session=True,
            )

    def wait_until_well(
        self, is_well: Callable[[], bool], *, patience_s: float, say: Callable[[str], None]
    ) -> None:
        """Raises EndpointUnavailable: it ended, or is not well in time; with its last words."""
        started = time.monotonic()
        told = started
        while not is_well():
            now = time.monotonic()
            if self._process.poll() is not None:
                raise EndpointUnavailable(
                    f"{self._python} -m vllm… {self._end()}: {self._last_words()} ({self.log})"
                )
            if now - started > patience_s:
                raise EndpointUnavailable(
                    f"{self.url} is not well after {patience_s:g} s: {self._last_words()} "
                    f"({self.log}); a larger --patience waits longer"
                )
            if now - told >= TELL_S:
                told = now
                say(f"{now - started:.0f} s: {self._last_words(errors=False)}")
            time.sleep(PAUSE_S)

    def wait(self) -> None:
        """Until it ends. Raises EndpointUnavailable: that is an error of its own."""
        self._process.wait()
        raise EndpointUnavailable(
            f"{self.url}: the server {self._end()}: {self._last_words()} ({self.log})"
        )

    def close(self) -> None:
        """End it and all that it started; politely at first."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _end(self) -> str:
        status = self._process.returncode
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        return f"ended with status {status}"

    def _last_words(self, *, errors: bool = True) -> str:
        """The last line that tells of an error, else the last one."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        wrong = [line for line in lines if "Error" in line] if errors else []
        return (wrong or lines or ["it said nothing"])[-1][:300]


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is inside as Ctrl-C does, by Ended, so that it cleans up."""

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in ending_signals():  # a second one must not disturb the cleaning up
            signal.signal(number, signal.SIG_IGN)
        raise Ended

    with heard_by(end):
        yield


def check_python(python: str) -> None:
    """Raises InvalidInput."""
    if not (os.path.isfile(python) and os.access(python, os.X_OK)):
        raise InvalidInput(f"--python {python}: there is no such program; name a Python with vLLM")


def _check_port(host: str, port: object) -> None:
    """Whether the address is free; better said now than by vLLM minutes later."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Conflict(
                f"--port {port}: {host} cannot be listened on there: {error.strerror}; end what "
                "uses it, or name another"
            ) from error
