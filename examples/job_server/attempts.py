"""The attempts of one service: accepted once, queued for room, run by a target, told about."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from examples.job_server.blobs import Blobs
from examples.job_server.news import NewsBoard
from examples.job_server.refusals import OtherBody
from examples.job_server.state import AttemptRow, State
from ledger.errors import ArlError, Conflict, InvalidInput, NotFound, StaleFence
from targets import wire
from targets.http_job.client import InputsMissing
from targets.http_job.documents import (
    AttemptDoc,
    AttemptsDoc,
    AttemptState,
    ChangeDoc,
    ExitDoc,
    FoundDoc,
    NewsDoc,
    ObservationDoc,
)
from targets.protocol import ExitCause, LogChunk, Target

log = logging.getLogger("job_server")

PAGE = 1000
LONGEST_WAIT_S = 30.0
READS_PER_LOOK = 64


class Attempts:
    """Thread-safe. One thread watches what runs and starts what waits for room."""

    def __init__(
        self, target: Target, state: State, blobs: Blobs, *, slots: int, gpu_ids: Sequence[str]
    ) -> None:
        self._target = target
        self._state = state
        self._blobs = blobs
        self._slots = slots
        self._gpu_ids = tuple(gpu_ids)
        self._room = threading.RLock()
        """Held while an attempt is given its place, so that no place is given twice."""
        self.board = NewsBoard()
        self._reading = threading.Lock()
        self._closed = False
        self._cursors = {row.name: "" for row in state.attempts("running")}
        """Of attempts that run: how far the watcher has read."""
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._watcher.start()

    # --- what clients ask for ----------------------------------------------------------------

    def submit(self, name: str, doc: AttemptDoc, by: float | None) -> AttemptState:
        """Accept it once, and start it if there is room. Raises OtherBody, StaleFence when `by`
        is over, InputsMissing, and what the target's launch raises."""
        text = wire.canonical(doc).decode()
        lacking = self._blobs.missing_of_trees(
            {*doc.inputs.values(), *doc.answerer_inputs.values()}
        )
        with self._room:
            row = self._state.attempt(name)
            created = row is None
            if row is None:
                if by is not None and time.time() > by:
                    raise StaleFence(f"{name} was asked for after the lease of its asker was over")
                if lacking:
                    raise InputsMissing(lacking)
                self._state.add_attempt(name, doc.owner, text)
            elif row.doc != text:
                raise OtherBody(f"attempt {name} was submitted before with another body")
            self._start_if_room(name)
        state = self._get(name).state
        return AttemptState.model_validate({"name": name, "state": state, "created": created})

    def observe(self, name: str, cursor: str) -> ObservationDoc:
        row = self._get(name)
        doc = AttemptDoc.model_validate_json(row.doc)
        told = {
            "state": row.state,
            "cursor": cursor,
            "timeout_s": doc.limits.timeout_s,
            "grace_s": doc.limits.grace_s,
            "output_bytes": doc.limits.output_bytes,
        }
        if row.handle is None:
            ended = None if row.exit is None else ExitDoc.model_validate_json(row.exit)
            return ObservationDoc.model_validate({**told, "exit": ended})
        seen = self._target.observe(row.handle, cursor=cursor)
        if seen.exit is not None:
            told["state"] = "ended"
            if not seen.more:
                self._note_end(name)
        return ObservationDoc.model_validate(
            {
                **told,
                "cursor": seen.cursor,
                "more": seen.more,
                "rejected": seen.rejected,
                "values": [wire.value_doc(value) for value in seen.values],
                "requests": [wire.network_request_doc(r) for r in seen.requests],
                "exit": None if seen.exit is None else wire.exit_doc(seen.exit),
            }
        )

    def stop(self, name: str) -> AttemptState:
        return self._end(name, self._target.request_stop, "stopped")

    def kill(self, name: str) -> AttemptState:
        return self._end(name, self._target.kill, "killed")

    def _end(self, name: str, ask: Callable[[str], None], word: str) -> AttemptState:
        handle = self._get(name).handle
        if handle is not None:
            ask(handle)
        else:
            self._end_unstarted(name, ExitCause.KILLED, f"it was {word} before it started")
        return self.state_of(name)

    def state_of(self, name: str) -> AttemptState:
        return AttemptState.model_validate({"name": name, "state": self._get(name).state})

    def outputs(self, name: str) -> str | None:
        """The directory; None when it never ran. Raises Conflict while it runs."""
        row = self._get(name)
        if row.state == "queued":
            raise Conflict(f"attempt {name} has not run yet")
        return None if row.handle is None else self._target.outputs(row.handle).root

    def score(self, name: str) -> bytes:
        row = self._get(name)
        if row.state == "queued":
            raise Conflict(f"attempt {name} has not run yet")
        return b"" if row.handle is None else self._target.score(row.handle)

    def read_log(self, name: str, offset: int, limit: int, wait_s: float) -> LogChunk:
        """While it runs, after it ended and after its release; waits up to `wait_s` for more."""
        until = time.monotonic() + min(wait_s, LONGEST_WAIT_S)
        while True:
            row = self._state.attempt(name)
            handle = self._state.released_handle(name) if row is None else row.handle
            if row is None and handle is None:
                raise NotFound(f"there is no attempt {name}")
            chunk = LogChunk(b"", 0, 0)
            if handle is not None:
                chunk = self._target.read_log(handle, offset=offset, limit=limit)
            ended = row is None or row.state == "ended"
            if chunk.data or ended or time.monotonic() >= until:
                return chunk
            time.sleep(0.1)

    def release(self, name: str) -> None:
        row = self._get(name)
        if row.state == "queued":
            raise Conflict(f"attempt {name} has not run yet: kill it first")
        if row.handle is not None:
            self._target.release(row.handle)
        with self._state.changing():
            if row.handle is not None:
                self._state.change(
                    "INSERT OR REPLACE INTO released (name, handle) VALUES (?, ?)",
                    *(name, row.handle),
                )
            self._state.change("DELETE FROM attempts WHERE name = ?", name)
        self.board.forget(name)
        with self._reading:
            self._cursors.pop(name, None)

    def list_owned(self, owner: str, after: str) -> AttemptsDoc:
        rows = self._state.owned(owner, after, PAGE + 1)
        found = [FoundDoc(name=row.name, running=row.state != "ended") for row in rows[:PAGE]]
        return AttemptsDoc(attempts=found, after=found[-1].name if len(rows) > PAGE else None)

    def count(self) -> int:
        """Not released yet."""
        return self._state.count_attempts()

    def news(self, after: str, wait_s: float) -> NewsDoc:
        """What changed since, once something did; at once for a cursor of another session."""
        told = self.board.since(after, min(wait_s, LONGEST_WAIT_S))
        changed = []
        for name in told.names:
            row = self._state.attempt(name)
            changed.append(ChangeDoc(name=name, running=row is not None and row.state != "ended"))
        return NewsDoc(cursor=told.cursor, changed=changed, reset=told.reset)

    def close(self) -> None:
        self._closed = True
        self._target.interrupt()
        self.board.close()
        self._watcher.join(10)

    # --- parts -------------------------------------------------------------------------------

    def _get(self, name: str) -> AttemptRow:
        row = self._state.attempt(name)
        if row is None:
            raise NotFound(f"there is no attempt {name}")
        return row

    def _start_if_room(self, name: str) -> None:
        """Give a queued attempt its place and launch it. What the target refuses for good is
        forgotten, as if it had never been asked for; after any other error it stays queued."""
        row = self._get(name)
        if row.state != "queued" or row.exit is not None:
            return
        doc = AttemptDoc.model_validate_json(row.doc)
        running = self._state.attempts("running")
        taken = {gpu for other in running for gpu in other.gpu_ids.split(",")}
        free = [gpu for gpu in self._gpu_ids if gpu not in taken]
        if doc.limits.gpus > len(self._gpu_ids):
            detail = f"limits.gpus {doc.limits.gpus}: this service has {len(self._gpu_ids)}"
            self._end_unstarted(name, ExitCause.LAUNCH_FAILED, detail)
            return
        if len(running) >= self._slots or len(free) < doc.limits.gpus:
            return
        gpu_ids = tuple(free[: doc.limits.gpus])
        try:
            handle = self._target.launch(wire.attempt_of(name, doc, gpu_ids))
        except InvalidInput:
            self._state.change("DELETE FROM attempts WHERE name = ?", name)
            raise
        self._state.change(
            "UPDATE attempts SET state = 'running', handle = ?, gpu_ids = ? WHERE name = ?",
            *(handle, ",".join(gpu_ids), name),
        )
        with self._reading:
            self._cursors[name] = ""
        self._target.interrupt()

    def _end_unstarted(self, name: str, cause: ExitCause, detail: str) -> None:
        ended = ExitDoc(cause=cause, code=None, detail=detail).model_dump_json()
        with self._room:
            changed = self._state.change(
                "UPDATE attempts SET state = 'ended', exit = ? WHERE name = ? AND handle IS NULL",
                *(ended, name),
            )
            if not changed:  # it was started just now
                self._target.kill(self._get(name).handle or name)
        self.board.note(name)

    def _watch(self) -> None:
        while not self._closed:
            with self._reading:
                names = list(self._cursors)
            handles = {row.handle: name for name in names if (row := self._state.attempt(name))}
            try:
                news = self._target.wait([h for h in handles if h is not None], 1.0)
                for handle in news:
                    self._look(handles[handle], handle)
                self._start_waiting()
            except ArlError as error:
                log.warning("%s", error)
                time.sleep(1.0)

    def _look(self, name: str, handle: str) -> None:
        """Note that there is something new, and whether it was the end."""
        for _ in range(READS_PER_LOOK):
            seen = self._target.observe(handle, cursor=self._cursors.get(name, ""))
            with self._reading:
                if name not in self._cursors:
                    return  # released meanwhile
                self._cursors[name] = seen.cursor
            if not seen.more:
                if seen.exit is not None:
                    self._note_end(name)
                break
        self.board.note(name)

    def _note_end(self, name: str) -> None:
        self._state.change(
            "UPDATE attempts SET state = 'ended', gpu_ids = '' WHERE name = ?", name
        )
        with self._reading:
            self._cursors.pop(name, None)

    def _start_waiting(self) -> None:
        for row in self._state.attempts("queued"):
            with self._room:
                try:
                    self._start_if_room(row.name)
                except InvalidInput as error:
                    log.warning("attempt %s: %s", row.name, error)
                    self._refuse(row, str(error))
                except NotFound:
                    continue  # it ended, or was released, meanwhile
            if (
                self._state.count_attempts()
                and len(self._state.attempts("running")) >= self._slots
            ):
                return

    def _refuse(self, row: AttemptRow, detail: str) -> None:
        """It was accepted before, so it ends instead of never having been."""
        self._state.add_attempt(row.name, row.owner, row.doc)
        self._end_unstarted(row.name, ExitCause.LAUNCH_FAILED, detail)
