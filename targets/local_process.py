"""Attempts as plain processes of this machine and user: no sandbox, for programs one trusts."""

import json
import os
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from inner_trials.contract import SCORE_BYTES
from ledger.errors import Conflict, InvalidInput
from ledger.records import Json
from targets import layout, program_log, workspace
from targets.disk_errors import disk_errors
from targets.egress.requests import read_requests
from targets.local_promises import local_promises
from targets.news import News
from targets.promises import Promises
from targets.protocol import (
    AttemptSpec,
    Exit,
    ExitCause,
    Found,
    LogChunk,
    Observation,
    OutputReader,
    Program,
)
from targets.reports import read_reports
from targets.supervisor_link import CommandLink, Daemon, Refusal

_FINGERPRINT_PATIENCE_S: Final = 120.0
_FINGERPRINT: Final = """
import json, platform, sys
from importlib import metadata
found = {}
for name in ("torch", "transformers", "trl", "peft"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps([platform.python_implementation(), platform.python_version(),
                  platform.system(), platform.machine(), found]))
"""


class LocalOutputs:
    """The directory where an ended attempt left its files."""

    def __init__(self, root: str) -> None:
        self._root = root

    @property
    def root(self) -> str:
        return self._root


class LocalProcessTarget:
    """See targets.protocol.Target. A handle is the attempt's name.

    One supervisor per `root` starts and watches the attempts; it outlives this object and this
    process, so another one, here or after a crash, finds every attempt again.
    """

    name = "local"
    is_shared = False
    is_sandbox = False

    def __init__(
        self,
        root: Path,
        store: workspace.Store,
        *,
        host: str,
        sandbox: workspace.Sandbox | None = None,
        daemon: Daemon | None = None,
    ) -> None:
        """`daemon` is what serves the root in place of a supervisor."""
        self.host = host
        self._root = os.path.abspath(root)
        self._boot = layout.boot_id()
        with disk_errors(f"making {self._root}"):
            os.makedirs(self._root, exist_ok=True)
            for part in (layout.ATTEMPTS, layout.LOGS, layout.TRASH):
                os.makedirs(f"{self._root}/{part}", mode=0o700, exist_ok=True)
        self._workspaces = workspace.Workspaces(
            self._root, store, host=host, boot=self._boot, sandbox=sandbox
        )
        self._link = CommandLink(self._root, daemon)
        self._news = News(self._root, daemon)
        self._report_bytes: dict[str, int] = {}
        self._fingerprints: dict[str, str] = {}
        self._fingerprinting = threading.Lock()

    def launch(self, spec: AttemptSpec) -> str:
        """Start the attempt, or find the one of that name. Raises InvalidInput too."""
        self._workspaces.lay_out(spec)
        self._report_bytes[spec.name] = spec.limits.report_bytes
        self._news.expect(spec.name)
        started = False
        try:
            started = self._link.call("launch", spec.name, spec.launch_by)["started"]
        except Refusal as refusal:  # another controller discarded it just now
            raise Conflict(f"attempt {spec.name} cannot be launched: {refusal}") from refusal
        finally:
            if not started:  # running or ended already: its news may have been missed
                self._news.forget(spec.name)
        return spec.name

    def wait(self, handles: Collection[str], timeout_s: float) -> set[str]:
        return self._news.wait(handles, timeout_s)

    def interrupt(self) -> None:
        self._news.interrupt()

    def observe(self, handle: str, *, cursor: str) -> Observation:
        """A cursor is that of the reports, and of the requests after a slash where there is a
        proxy."""
        attempt = self._directory(handle)
        ended = self._find_exit(handle)
        reported, _, requested = cursor.partition("/")
        reports = read_reports(
            f"{attempt}/{layout.REPORTS}",
            reported,
            quota_bytes=self._report_quota(handle),
            ended=ended is not None,
        )
        seen = read_requests(f"{attempt}/{layout.EGRESS}", requested, ended=ended is not None)
        return Observation(
            values=reports.values,
            cursor=f"{reports.cursor}/{seen.cursor}" if seen.cursor else reports.cursor,
            more=reports.more or seen.more,
            rejected=reports.rejected,
            requests=seen.requests,
            exit=ended,
        )

    def request_stop(self, handle: str) -> None:
        self._ask("stop", handle)

    def kill(self, handle: str) -> None:
        self._ask("kill", handle)

    def outputs(self, handle: str) -> OutputReader:
        self._check_ended(handle, "its outputs are read")
        return LocalOutputs(f"{self._directory(handle)}/{layout.OUTPUT}")

    def score(self, handle: str) -> bytes:
        self._check_ended(handle, "its score is read")
        path = f"{self._directory(handle)}/{layout.SCORE}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return b""
        with open(descriptor, "rb") as file:
            return file.read(SCORE_BYTES + 1)

    def read_log(self, handle: str, *, offset: int, limit: int) -> LogChunk:
        """Where the middle was dropped, a chunk starts later than asked; see LogChunk.offset."""
        path = f"{self._directory(handle)}/{layout.LOG}"
        if not os.path.isdir(os.path.dirname(path)):
            path = f"{self._root}/{layout.LOGS}/{handle}.log"
        data, start, size = program_log.read_log(path, offset, limit)
        return LogChunk(data, start, size)

    def release(self, handle: str) -> None:
        attempt = self._directory(handle)
        if os.path.isdir(attempt):
            self._check_ended(handle, "it is released")
            with disk_errors(f"deleting what {handle} left"):
                for name in (layout.LOG, layout.ANSWERER_LOG):
                    self._keep_log(handle, f"{attempt}/{name}", name)
                self._workspaces.discard(handle)
        self._news.forget(handle)
        self._report_bytes.pop(handle, None)

    def list_owned(self, owner: str) -> Sequence[Found]:
        self._workspaces.sweep()
        names = os.listdir(f"{self._root}/{layout.ATTEMPTS}")
        found = []
        for name in sorted(names):
            attempt = f"{self._root}/{layout.ATTEMPTS}/{name}"
            if layout.is_name(name) and layout.read_launch(attempt).get("owner") == owner:
                running = self._find_exit(name) is None
                found.append(Found(handle=name, name=name, running=running))
        return found

    def check_options(self, options: Mapping[str, Json]) -> None:
        """There are none that it reads."""

    def pin(self, program: Program) -> Program:
        if program.image is not None:
            raise InvalidInput(
                f"target.image {program.image!r}: target {self.name} runs no images, but this "
                "machine's own interpreter; remove it, or write target.name: docker"
            )
        return program

    def fingerprint(self, program: Program) -> str:
        """Of the interpreter: its version, the platform, and the training libraries it has.

        Raises InvalidInput when the interpreter cannot be run.
        """
        with self._fingerprinting:
            if program.python not in self._fingerprints:
                self._fingerprints[program.python] = _ask_interpreter(program.python)
            return self._fingerprints[program.python]

    def promises(self) -> Promises:
        return local_promises()

    def close(self) -> None:
        self._news.close()
        self._link.close()
        self._workspaces.close()

    def _directory(self, handle: str) -> str:
        if not layout.is_name(handle):
            raise InvalidInput(f"attempt handle {handle!r}: must be {layout.NAME_RULE}")
        return f"{self._root}/{layout.ATTEMPTS}/{handle}"

    def _ask(self, operation: str, handle: str) -> None:
        """Pass a request on, unless the attempt has ended or never was."""
        facts = layout.read_record(self._directory(handle))
        if facts is not None and "exit" not in facts:
            self._link.call(operation, handle)

    def _check_ended(self, handle: str, what: str) -> None:
        if self._find_exit(handle) is None:
            raise Conflict(f"attempt {handle} still runs: wait for its end before {what}")

    def _find_exit(self, handle: str) -> Exit | None:
        """How it ended; None while it runs. One that nobody runs and nobody saw end is lost."""
        attempt = self._directory(handle)
        facts = layout.read_record(attempt)
        if facts is not None and "exit" not in facts:
            if self._news.is_known(handle):
                return None
            self._news.expect(handle)
            if self._link.call("state", handle)["running"]:
                return None
            self._news.forget(handle)
            facts = layout.read_record(attempt)
        if facts is None or "exit" not in facts:
            return Exit(cause=ExitCause.LOST, code=None, detail="it was never started here")
        return self._as_exit(facts)

    def _as_exit(self, facts: layout.Fact) -> Exit:
        ended = facts["exit"]
        if ended["boot"] != self._boot and "durable" not in facts and ended["cause"] != "lost":
            return Exit(
                cause=ExitCause.LOST,
                code=None,
                detail="the machine restarted before what it wrote had reached the disk",
            )
        return Exit(
            cause=ExitCause(ended["cause"]),
            code=ended["code"],
            detail=ended["detail"],
            wall_s=ended.get("wall_s", 0.0),
            cpu_s=ended.get("cpu_s", 0.0),
            max_rss_bytes=ended.get("max_rss_bytes", 0),
        )

    def _report_quota(self, handle: str) -> int:
        if handle not in self._report_bytes:  # launched by an earlier process, or never
            quota = layout.read_launch(self._directory(handle)).get("report_bytes")
            if not isinstance(quota, int):
                return 0
            self._report_bytes[handle] = quota
        return self._report_bytes[handle]

    def _keep_log(self, handle: str, log: str, name: str) -> None:
        """Move the log's files to where they stay, under the attempt's name."""
        kept = f"{self._root}/{layout.LOGS}/{handle}.{name}"
        for start, path in program_log.log_files(log):
            os.rename(path, f"{kept}.{start}" if start else kept)


def _ask_interpreter(python: str) -> str:
    try:
        answer = subprocess.run(
            [python, "-I", "-c", _FINGERPRINT],
            capture_output=True,
            timeout=_FINGERPRINT_PATIENCE_S,
            check=True,
            env={"PATH": layout.CLEAN_PATH, "LANG": "C.UTF-8"},
        ).stdout
        implementation, version, system, machine, packages = json.loads(answer)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InvalidInput(
            f"program.python {python!r} cannot be run: {error}; name a Python interpreter"
        ) from error
    parts = [implementation, version, system, machine]
    return " ".join(parts + [f"{name}={version}" for name, version in sorted(packages.items())])
