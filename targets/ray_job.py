"""Attempts on a Ray cluster: each is placed on a node, where the node's own target runs it."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from inner_trials.contract import SCORE_BYTES
from ledger.errors import Conflict, InvalidInput, StaleFence, TargetUnavailable
from targets import layout, ray_link
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
from targets.ray_actor import pack
from targets.ray_ended import Ended
from targets.ray_news import RayNews
from targets.ray_records import (
    CLAIM,
    JOURNAL_PIECE,
    LAUNCH,
    RECORD,
    SCORE,
    Record,
    attempt_path,
    owner_path,
    read_journal,
    spec_to_json,
)
from targets.ray_requests import bundle_of, check_spec, options_of, ray_promises
from targets.ray_storage import open_store
from targets.ray_trees import send_tree, sweep_trees

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
    store what must survive the node: see targets.ray_records.
    """

    name = "ray"
    is_shared = True

    def __init__(self, root: Path, store: Store, *, options: Mapping[str, str]) -> None:
        """Connects to nothing yet. Raises InvalidInput."""
        given = options_of(options)
        self.is_sandbox = given.sandbox != "local"
        self._given = given
        self._store = store
        self._shared = open_store(given.storage)
        with disk_errors(f"making {root}"):
            os.makedirs(root, exist_ok=True)
        label = hashlib.sha256(given.storage.encode()).hexdigest()[:12]
        log = root / "ray-driver.log"
        self._link = ray_link.open_link(given.address, f"arl-{label}", log)
        self._news = RayNews(lambda name: self._link.call("watch", name=name))
        self._link.listen(self._news)
        self._ended = Ended(f"{os.path.abspath(root)}/ended", self._shared, self._news.end)
        self._preparing = threading.Lock()
        self._is_prepared = False
        self._gone_at: dict[str, float] = {}
        self._answers: dict[tuple[str, ...], str] = {}

    # --- launching -----------------------------------------------------------------------------

    def launch(self, spec: AttemptSpec) -> str:
        """As the contract says. Raises TargetUnavailable, naming what the cluster has, where no
        node can ever hold it; one that waits for room is launched. Raises StaleFence."""
        check_spec(spec)
        self._prepare()
        if not self._was_decided(spec.name):
            for tree in {*spec.inputs.values(), *spec.answerer_inputs.values()}:
                send_tree(self._shared, tree, self._store)
            self._note_launch(spec)
            self._place(spec)
        self._news.expect(spec.name)
        return spec.name

    def _place(self, spec: AttemptSpec) -> None:
        order = {
            "spec": spec_to_json(spec),
            "storage": self._given.storage,
            "sandbox": self._given.sandbox,
        }
        answer = self._link.call(
            "launch",
            name=spec.name,
            pieces=pack(order),
            bundle=bundle_of(spec),
            shunned=self._shunned(),
            launch_by=spec.launch_by,
        )
        if answer["state"] == "late":
            raise StaleFence(f"{spec.name} was asked for after the lease of its asker was over")
        if answer["state"] == "lacking":
            raise TargetUnavailable(
                f"target.name 'ray': {answer['lacking']}; lower resources.cpus, resources.gpus, "
                "resources.memory or target.resources, or add a node: it goes on by itself then"
            )

    def _note_launch(self, spec: AttemptSpec) -> None:
        """So that another host finds it, whatever becomes of the cluster."""
        if spec.launch_by is not None and time.monotonic() > spec.launch_by:
            raise StaleFence(f"{spec.name} was asked for after the lease of its asker was over")
        facts = json.dumps({"owner": spec.owner, "kind": spec.kind}).encode()
        self._shared.write(attempt_path(spec.name, LAUNCH), facts)
        self._shared.write(owner_path(spec.owner, spec.name), b"")

    def _was_decided(self, name: str) -> bool:
        """Whether it was started, or ended before it started, by anybody."""
        return self._shared.age_s(attempt_path(name, CLAIM)) is not None

    def _prepare(self) -> None:
        with self._preparing:
            if not self._is_prepared:
                self._shared.prepare()
                sweep_trees(self._shared)
                self._is_prepared = True

    def _shunned(self) -> list[str]:
        names = self._shared.names("nodes")
        ages = {name: self._shared.age_s(f"nodes/{name}") for name in names}
        return [name for name, age_s in ages.items() if age_s is not None and age_s < _SHUN_S]

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

    def list_owned(self, owner: str) -> Sequence[Found]:
        """Also frees what the cluster still holds for attempts that the store has forgotten."""
        names = self._shared.names(owner_path(owner))
        if not names:
            return []
        for name in self._link.call("groups"):
            if self._was_released(name):
                self._link.call("cancel", name=name)
        states = self._link.call("states", names=names)
        return [
            Found(handle=name, name=name, running=state != "gone")
            for name, state in states.items()
        ]

    # --- what runs it --------------------------------------------------------------------------

    def pin(self, program: Program) -> Program:
        if program.image is None:
            return program
        return replace(program, image=self._ask("pin", program)["image"])

    def fingerprint(self, program: Program) -> str:
        """Of the interpreter on a node of the cluster; nodes are taken to be alike."""
        key = (program.python, program.image or "")
        if key not in self._answers:
            self._answers[key] = self._ask("fingerprint", program)["fingerprint"]
        return self._answers[key]

    def _ask(self, what: str, program: Program) -> dict[str, str]:
        self._prepare()
        order: dict[str, Any] = {
            "ask": what,
            "program": asdict(program),
            "storage": self._given.storage,
            "sandbox": self._given.sandbox,
        }
        answer: dict[str, str] = self._link.call(
            "ask", _ASK_S, pieces=pack(order), shunned=self._shunned()
        )
        if "error" in answer:
            kind = InvalidInput if answer["error"] == InvalidInput.code else TargetUnavailable
            raise kind(f"{answer['detail']} (on a node of the Ray cluster)")
        return answer

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
