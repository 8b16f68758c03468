"""Attempts on a Ray cluster: each is placed on a node, where the node's own target runs it."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from inner_trials.contract import SCORE_BYTES
from ledger.errors import Conflict, InvalidInput, TargetUnavailable
from ledger.records import Json
from targets import layout
from targets.attempt_files import Store
from targets.disk_errors import disk_errors
from targets.local_process import LocalOutputs
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
from targets.ray_job import link as ray_link
from targets.ray_job.ended import Ended
from targets.ray_job.launch import Launcher
from targets.ray_job.news import RayNews
from targets.ray_job.records import (
    CLAIM,
    JOURNAL_PIECE,
    LAUNCH,
    RECORD,
    SCORE,
    Record,
    attempt_path,
    owner_path,
    read_journal,
)
from targets.ray_job.requests import options_of, ray_promises
from targets.ray_job.storage import open_store

_GRACE_S: Final = 2.0
"""From the end of an actor to calling its attempt lost: its record may take a moment to show."""
_SHUN_S: Final = 600.0
"""A node that could not run something is tried again after this."""
_ASK_S: Final = 200.0


class RayTarget:
    """See targets.protocol.Target. A handle is the attempt's name.

    Options: `address` of the cluster, default auto; `storage`, the URL of a folder or bucket
    that every node reaches; `sandbox`: docker, bubblewrap or local, default what the node has.

    Of one attempt the cluster holds a placement group and an actor of its name, and the shared
    store what must survive the node: see targets.ray_job.records.
    """

    name = "ray"
    is_shared = True

    def __init__(self, root: Path, store: Store, *, options: Mapping[str, str]) -> None:
        """Connects to nothing yet. Raises InvalidInput."""
        given = options_of(options)
        self.is_sandbox = given.sandbox != "local"
        self._given = given
        self._shared = open_store(given.storage)
        with disk_errors(f"making {root}"):
            os.makedirs(root, exist_ok=True)
        label = hashlib.sha256(given.storage.encode()).hexdigest()[:12]
        log = root / "ray-driver.log"
        self._link = ray_link.open_link(given.address, f"arl-{label}", log)
        self._news = RayNews(lambda name: self._link.call("watch", name=name))
        self._link.listen(self._news)
        self._ended = Ended(f"{os.path.abspath(root)}/ended", self._shared, self._news.end)
        self._launcher = Launcher(self._shared, store, self._link, given)
        self._gone_at: dict[str, float] = {}
        self._answers: dict[tuple[str, ...], str] = {}

    # --- launching -----------------------------------------------------------------------------

    def launch(self, spec: AttemptSpec) -> str:
        """As the contract says. Raises TargetUnavailable, naming what the cluster has, where no
        node can ever hold it; one that waits for room is launched. Raises StaleFence."""
        self._launcher.launch(spec)
        self._news.expect(spec.name)
        return spec.name

    # --- news ----------------------------------------------------------------------------------

    def wait(self, handles: Collection[str], timeout_s: float) -> set[str]:
        return self._news.wait(handles, timeout_s)

    def interrupt(self) -> None:
        self._news.interrupt()

    def observe(self, handle: str, *, cursor: str) -> Observation:
        """An end is told once what the attempt left is on this machine."""
        _check_handle(handle)
        record = self._ended.known(handle)
        if record is None and not self._ended.is_fetching(handle):
            try:
                live = self._observe_live(handle, cursor)
            except TargetUnavailable:
                record = self._ended.record(handle)  # it may have ended before the cluster went
                if record is None:
                    raise
            else:
                if live is not None:
                    return live
                record = self._settle(handle)
        if record is None:
            if self._ended.is_fetching(handle):
                self._news.hold(handle)
            return Observation(values=(), cursor=cursor)
        self._news.end(handle)
        return self._ended.observe(handle, record, cursor)

    def _observe_live(self, handle: str, cursor: str) -> Observation | None:
        """None when it does not run any more, or will not."""
        offset = int(cursor or 0)
        seen = self._call(handle, "read_journal", offset, JOURNAL_PIECE)
        if seen["state"] == "waiting":
            return None if self._is_stuck(handle) else Observation(values=(), cursor=cursor)
        if seen["state"] != "answered":
            return None if seen["state"] == "gone" else Observation(values=(), cursor=cursor)
        data, is_over = seen["value"]
        return None if is_over else read_journal(data, offset, size=None)

    def _is_stuck(self, handle: str) -> bool:
        """Whether it waits for what no node has any more: then it ends, if it can be kept from
        starting, and the attempt after it says what is lacking."""
        why = self._news.why(handle)
        return bool(why) and self._end_unstarted(handle, ExitCause.LOST, why)

    def _settle(self, handle: str) -> Record | None:
        """The end of an attempt that no node runs any more; None: ask again in a moment."""
        record = self._ended.record(handle)
        if record is not None or self._ended.is_fetching(handle):
            return record
        if self._shared.age_s(attempt_path(handle, LAUNCH)) is None:
            return Record(exit=_lost("it was never started here"))
        now = time.monotonic()
        if now - self._gone_at.setdefault(handle, now) < _GRACE_S:
            self._news.hold(handle)
            timer = threading.Timer(_GRACE_S, self._news.freshen, args=(handle,))
            timer.daemon = True
            timer.start()
            return None
        why = self._news.why(handle) or "its node or its actor died"
        self._declare(handle, _lost(f"lost in the cluster: {why}"))
        return self._ended.record(handle)

    def _declare(self, handle: str, ended: Exit) -> None:
        """End it for good, unless its own record comes first; a node that comes back finds that
        it may not start it, or that its record is not wanted."""
        self._shared.create(attempt_path(handle, CLAIM), b"{}")
        self._shared.create(attempt_path(handle, RECORD), Record(exit=ended).to_bytes())
        self._link.call("cancel", name=handle)

    # --- ending it -----------------------------------------------------------------------------

    def request_stop(self, handle: str) -> None:
        self._end(handle, "stop")

    def kill(self, handle: str) -> None:
        self._end(handle, "kill")

    def _end(self, handle: str, what: str) -> None:
        """One that has no place yet never gets one; else its node is told."""
        _check_handle(handle)
        if self._ended.known(handle) is not None or self._was_released(handle):
            return
        answer = self._call(handle, "ask", what)
        if answer["state"] in ("waiting", "gone"):
            self._end_unstarted(handle, ExitCause.KILLED, "ended before it started")

    def _end_unstarted(self, handle: str, cause: ExitCause, detail: str) -> bool:
        """End it unless a node has started it, or is about to."""
        claim = json.dumps({"controller": True}).encode()
        if not self._shared.create(attempt_path(handle, CLAIM), claim):
            return False
        self._declare(handle, Exit(cause=cause, code=None, detail=layout.one_line(detail)))
        self._news.freshen(handle)
        return True

    # --- what it left --------------------------------------------------------------------------

    def outputs(self, handle: str) -> OutputReader:
        return LocalOutputs(f"{self._left(handle, 'its outputs are read')}/output")

    def score(self, handle: str) -> bytes:
        path = f"{self._left(handle, 'its score is read')}/{SCORE}"
        with disk_errors(f"reading {path}"), open(path, "rb") as file:
            return file.read(SCORE_BYTES + 1)

    def _left(self, handle: str, what: str) -> str:
        _check_handle(handle)
        directory = self._ended.directory(handle)
        if directory is None:
            raise Conflict(f"attempt {handle} still runs: wait for its end before {what}")
        return directory

    def read_log(self, handle: str, *, offset: int, limit: int) -> LogChunk:
        """One that was lost with its node took its log with it."""
        _check_handle(handle)
        if self._ended.known(handle) is None and not self._was_released(handle):
            try:
                seen = self._call(handle, "read_log", offset, limit)
            except TargetUnavailable:
                seen = {"state": "gone"}
            if seen["state"] != "gone":
                return LogChunk(*seen["value"]) if "value" in seen else LogChunk(b"", 0, 0)
        return self._ended.read_log(handle, offset, limit)

    def _was_released(self, handle: str) -> bool:
        return self._shared.age_s(attempt_path(handle, LAUNCH)) is None

    def release(self, handle: str) -> None:
        _check_handle(handle)
        launch = self._shared.read(attempt_path(handle, LAUNCH))
        if launch is not None:
            if self._shared.age_s(attempt_path(handle, RECORD)) is None:
                raise Conflict(f"attempt {handle} still runs: wait for its end before release")
            self._link.call("cancel", name=handle)
            self._shared.remove(owner_path(json.loads(launch)["owner"], handle))
            self._shared.remove(attempt_path(handle))
        self._ended.forget(handle)
        self._news.forget(handle)
        self._gone_at.pop(handle, None)

    def _has_ended(self, name: str) -> bool:
        """Its actor may take a moment longer to leave than its record to be written."""
        return self._shared.age_s(attempt_path(name, RECORD)) is not None

    def list_owned(self, owner: str) -> Sequence[Found]:
        """Also frees what the cluster, and this machine, still hold for attempts that were
        released, by this process or another."""
        for name in self._ended.names():
            if self._was_released(name) and not self._ended.is_fetching(name):
                self._ended.forget(name)
        names = self._shared.names(owner_path(owner))
        if not names:
            return []
        for name in self._link.call("groups"):
            if self._was_released(name):
                self._link.call("cancel", name=name)
        states = self._link.call("states", names=names)
        return [
            Found(handle=name, name=name, running=state != "gone" and not self._has_ended(name))
            for name, state in states.items()
        ]

    # --- what runs it --------------------------------------------------------------------------

    def check_options(self, options: Mapping[str, Json]) -> None:
        """What no node has today, one may have tomorrow: an attempt waits, and says for what."""

    def pin(self, program: Program) -> Program:
        if program.image is None:
            return program
        return replace(program, image=self._launcher.ask("pin", program)["image"])

    def fingerprint(self, program: Program) -> str:
        """Of the interpreter on a node of the cluster; nodes are taken to be alike."""
        key = (program.python, program.image or "")
        if key not in self._answers:
            self._answers[key] = self._launcher.ask("fingerprint", program)["fingerprint"]
        return self._answers[key]

    def promises(self) -> Promises:
        return ray_promises(self._given.sandbox)

    def close(self) -> None:
        self._link.stop_listening(self._news)
        ray_link.close_link(self._link)

    def _call(self, handle: str, method: str, *arguments: object) -> dict[str, Any]:
        answer: dict[str, Any] = self._link.call(
            "call", name=handle, method=method, arguments=list(arguments)
        )
        return answer


def _check_handle(handle: str) -> None:
    if not layout.is_name(handle):
        raise InvalidInput(f"attempt handle {handle!r}: must be {layout.NAME_RULE}")


def _lost(detail: str) -> Exit:
    return Exit(cause=ExitCause.LOST, code=None, detail=layout.one_line(detail))
