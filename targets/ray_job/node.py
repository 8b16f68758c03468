"""One attempt on its node: fetches its inputs, runs it with the node's own target, and sends what
it left to the shared store. Knows nothing of Ray; see targets.ray_job.actor."""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from ledger.errors import ArlError, DiskFull, TargetUnavailable
from targets import layout
from targets.protocol import AttemptSpec, Exit, ExitCause, Target
from targets.ray_job.guard import start_guard, sweep_node
from targets.ray_job.left import send_files
from targets.ray_job.place import (
    NodeCache,
    NoSandbox,
    choose_sandbox,
    clear_attempt,
    node_home,
    node_target,
)
from targets.ray_job.records import (
    CLAIM,
    JOURNAL,
    RECORD,
    Record,
    attempt_path,
    journal_lines,
    spec_from_json,
)
from targets.ray_job.storage import open_store

_LOOK_S: Final = 5.0
_SEND_PATIENCE_S: Final = 900.0
"""How long what an attempt left waits on the node for a store that does not answer."""
_LONGEST_PAUSE_S: Final = 30.0


class NodeAttempt:
    """Started once; asked by several threads while it runs."""

    def __init__(
        self,
        order: Mapping[str, Any],
        *,
        gpu_ids: tuple[str, ...],
        node: str,
        leave: Callable[[], None],
    ) -> None:
        """`order`: spec, storage and sandbox. `leave` is called when all is done."""
        self._spec = spec_from_json(order["spec"], gpu_ids=gpu_ids)
        self._wanted: str | None = order["sandbox"]
        self._storage: str = order["storage"]
        self._node = node
        self._leave = leave
        self._name = self._spec.name
        self._changed = threading.Condition()
        self._asked: set[str] = set()
        self._target: Target | None = None
        self._is_launched = False
        self._is_over = False
        self._journal_bytes = 0
        self._journal = ""
        self._sandbox = ""
        self._trouble = ""
        """Why it ended without a record."""

    def start(self) -> None:
        threading.Thread(target=self._run, name="arl-attempt", daemon=True).start()

    # --- asked while it runs ---------------------------------------------------------------

    def news(self, seen_bytes: int, patience_s: float) -> dict[str, Any]:
        """Wait until the journal is longer than `seen_bytes` or the attempt is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or self._journal_bytes > seen_bytes, patience_s
            )
            return {
                "bytes": self._journal_bytes,
                "over": self._is_over,
                "trouble": self._trouble,
            }

    def read_journal(self, offset: int, limit: int) -> tuple[bytes, bool]:
        """A piece of it, and whether the attempt is over."""
        with self._changed:
            limit, is_over = min(limit, self._journal_bytes - offset), self._is_over
        if limit <= 0 or is_over:  # the whole of it is in the shared store then
            return b"", is_over
        with open(self._journal, "rb", buffering=0) as file:
            file.seek(offset)
            return file.read(limit), False

    def read_log(self, offset: int, limit: int) -> tuple[bytes, int, int]:
        """Data, the offset it starts at, and the size of the whole log."""
        if self._target is None or not self._is_launched:
            return b"", 0, 0
        chunk = self._target.read_log(self._name, offset=offset, limit=limit)
        return chunk.data, chunk.offset, chunk.size

    def ask(self, what: str) -> None:
        """`stop` or `kill`; remembered for when it is launched."""
        with self._changed:
            self._asked.add(what)
            launched = self._is_launched
        if launched:
            self._pass_on(what)

    def _pass_on(self, what: str) -> None:
        if self._target is not None:
            (self._target.kill if what == "kill" else self._target.request_stop)(self._name)

    # --- its life ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            store = open_store(self._storage)
            claim = json.dumps({"node": self._node, "pid": os.getpid()}).encode()
            if store.create(attempt_path(self._name, CLAIM), claim):
                home = node_home(self._storage)
                cache = NodeCache(home, store)
                try:
                    self._live(home, cache)
                    sweep_node(home, self._storage)
                finally:
                    cache.trim()
                    cache.close()
        except (ArlError, OSError) as error:
            self._trouble = f"on node {self._node[:12]}: {error}"
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            self._leave()

    def _live(self, home: str, cache: NodeCache) -> None:
        started = time.monotonic()
        try:
            ended = self._follow(home, cache)
        except NoSandbox as error:
            self._until_stored(self._shun)
            ended = _failed(str(error), started)
        except (ArlError, OSError) as error:
            ended = _failed(f"on node {self._node[:12]}: {error}", started)
            if self._is_launched:  # the guard ends what may still run
                ended = replace(ended, cause=ExitCause.LOST)
        self._until_stored(lambda: self._store_end(ended))
        if self._target is not None:
            try:
                clear_attempt(home, self._sandbox, self._name, self._target)
            except (ArlError, OSError):
                pass  # the guard does it again once this process is gone
            self._target.close()

    def _follow(self, home: str, cache: NodeCache) -> Exit:
        self._sandbox = choose_sandbox(self._wanted, self._spec.program)
        for tree in {*self._spec.inputs.values(), *self._spec.answerer_inputs.values()}:
            cache.checkout(tree)
        self._target = node_target(self._sandbox, home, cache, self._node)
        start_guard(home, self._name, self._sandbox, self._storage)
        self._open_journal(home)  # not before someone is there who deletes it
        if "kill" in self._asked:
            return Exit(cause=ExitCause.KILLED, code=None, detail="ended before it started")
        self._target.launch(_on_node(self._spec))
        with self._changed:
            self._is_launched = True
            asked = set(self._asked)
        for what in asked:
            self._pass_on(what)
        return self._watch(self._target)

    def _watch(self, target: Target) -> Exit:
        cursor = ""
        with open(self._journal, "ab", buffering=0) as journal:
            while True:
                target.wait({self._name}, _LOOK_S)
                more = True
                while more:
                    seen = target.observe(self._name, cursor=cursor)
                    cursor, more = seen.cursor, seen.more
                    self._note(journal.write, journal_lines(seen))
                    if seen.exit is not None and not more:
                        return seen.exit

    def _note(self, write: Callable[[bytes], int | None], lines: bytes) -> None:
        if not lines:
            return
        view = memoryview(lines)
        while view:
            view = view[write(bytes(view)) or 0 :]
        with self._changed:
            self._journal_bytes += len(lines)
            self._changed.notify_all()

    def _open_journal(self, home: str) -> None:
        os.makedirs(f"{home}/journals", mode=0o700, exist_ok=True)
        self._journal = f"{home}/journals/{self._name}"
        with open(self._journal, "wb"):
            pass

    # --- what it leaves --------------------------------------------------------------------

    def _store_end(self, ended: Exit) -> None:
        """Everything first, then the record, which makes it count. Idempotent."""
        store = open_store(self._storage)
        record = Record(exit=ended, node=self._node, journal_bytes=self._journal_bytes)
        if self._target is not None and self._is_launched:
            record = send_files(store, self._target, self._spec, record)
        if self._journal_bytes:
            with open(self._journal, "rb") as file:
                store.write(attempt_path(self._name, JOURNAL), file.read())
        store.create(attempt_path(self._name, RECORD), record.to_bytes())

    def _shun(self) -> None:
        open_store(self._storage).write(f"nodes/{self._node}", b"")

    def _until_stored(self, store: Callable[[], None]) -> None:
        """Try until the store takes it, or too long: the attempt is lost then."""
        until, pause_s = time.monotonic() + _SEND_PATIENCE_S, 0.5
        while True:
            try:
                store()
            except (TargetUnavailable, DiskFull):
                if time.monotonic() > until:
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                return


def _failed(detail: str, started: float) -> Exit:
    return Exit(
        cause=ExitCause.LAUNCH_FAILED,
        code=None,
        detail=layout.one_line(detail),
        wall_s=time.monotonic() - started,
    )


def _on_node(spec: AttemptSpec) -> AttemptSpec:
    """As its own target there runs it; nobody asks for other options there."""
    return replace(spec, launch_by=None)
