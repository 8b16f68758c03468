"""Trials that ARL starts nowhere: workers of one's own ask for them and tell what came of them."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ledger.errors import Conflict, InvalidInput
from ledger.records import AttemptKind, Json
from targets import layout, program_log
from targets.outside.facts import Document
from targets.outside.news import News
from targets.outside.overdue import LEASE_S
from targets.outside.records import RECORDS, Records
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
from targets.reports import parse_report, read_reports

_TOLD: Final = "."
"""After a cursor: the values that came with the end were given."""


class OutsideOutputs:
    """The directory in which the told artifact was laid out."""

    def __init__(self, root: str) -> None:
        self._root = root

    @property
    def root(self) -> str:
        return self._root


class OutsideTarget:
    """See targets.protocol.Target. A handle is the attempt's name.

    A launch is an offer; `controller.api.outside` hands it out and takes the answers. Time counts
    from when it was fetched. Nothing can be killed: a worker that was told to stop, or is late,
    is not listened to any more.
    """

    name = "outside"
    is_shared = True
    is_sandbox = False

    def __init__(self, root: Path) -> None:
        self._records = Records(root)
        self._news = News(root / RECORDS)

    def launch(self, spec: AttemptSpec) -> str:
        """Raises InvalidInput for an attempt that is none of a trial's own program."""
        if spec.kind is not AttemptKind.TRAIN:
            raise InvalidInput(
                f"target.name 'outside': it only trains; a {spec.kind} attempt runs here: write "
                "evaluator.target: docker, bubblewrap or local"
            )
        limits = spec.limits
        lease_s = LEASE_S if limits.stall_s is None else limits.stall_s
        self._records.offer(
            spec.name,
            {
                "owner": spec.owner,
                "document": dict(spec.document),
                "inputs": dict(spec.inputs),
                "argv": list(spec.program.argv),
                "timeout_s": limits.timeout_s,
                "grace_s": limits.grace_s,
                "lease_s": lease_s,
                "report_bytes": limits.report_bytes,
                "log_bytes": limits.log_bytes,
            },
        )
        return spec.name

    def wait(self, handles: Collection[str], timeout_s: float) -> set[str]:
        return self._news.wait(
            handles, timeout_s, lambda name: self._records.read_end(name) is not None
        )

    def interrupt(self) -> None:
        self._news.interrupt()

    def observe(self, handle: str, *, cursor: str) -> Observation:
        ended = self._records.read_end(handle)
        known = self._records.read(handle)
        reports = read_reports(
            str(self._records.attempt(handle) / layout.REPORTS),
            cursor.removesuffix(_TOLD),
            quota_bytes=0 if known.offer is None else int(known.offer["report_bytes"]),
            ended=ended is not None,
        )
        seen = Observation(
            values=reports.values,
            cursor=reports.cursor,
            more=reports.more,
            rejected=reports.rejected,
            exit=ended,
        )
        if ended is None or known.end is None or reports.more:
            return seen
        return _with_told(seen, known.end, is_new=not cursor.endswith(_TOLD))

    def request_stop(self, handle: str) -> None:
        self._records.request_stop(handle)

    def kill(self, handle: str) -> None:
        killed = Exit(cause=ExitCause.KILLED, code=None, detail="it was taken back")
        if self._records.read_offer(handle) is not None:
            self._records.end(handle, killed)

    def outputs(self, handle: str) -> OutputReader:
        self._check_ended(handle, "its outputs are read")
        return OutsideOutputs(str(self._records.attempt(handle) / layout.OUTPUT))

    def score(self, handle: str) -> bytes:
        """None: it evaluates nothing."""
        self._check_ended(handle, "its score is read")
        return b""

    def read_log(self, handle: str, *, offset: int, limit: int) -> LogChunk:
        path = str(self._records.log(handle))
        data, start, size = program_log.read_log(path, offset, limit)
        return LogChunk(data, start, size)

    def release(self, handle: str) -> None:
        if self._records.read_offer(handle) is not None:
            self._check_ended(handle, "it is released")
        self._records.release(handle)

    def list_owned(self, owner: str) -> Sequence[Found]:
        found = []
        for name in self._records.names():
            offer = self._records.read_offer(name)
            if offer is not None and offer["owner"] == owner:
                running = self._records.read_end(name) is None
                found.append(Found(handle=name, name=name, running=running))
        return found

    def check_options(self, options: Mapping[str, Json]) -> None:
        """There are none that it reads."""

    def pin(self, program: Program) -> Program:
        if program.image is not None:
            raise InvalidInput(
                f"target.image {program.image!r}: an outside worker chooses its own; remove it"
            )
        return program

    def fingerprint(self, program: Program) -> str:
        """Nothing is known of where outside workers run."""
        return "outside workers"

    def close(self) -> None:
        self._news.close()

    def _check_ended(self, handle: str, what: str) -> None:
        if self._records.read_end(handle) is None:
            raise Conflict(f"attempt {handle} is not ended: wait for its end before {what}")


def _with_told(seen: Observation, end: Document, *, is_new: bool) -> Observation:
    """What came with the end, after everything that was reported before it."""
    told = (end["told"] or ()) if is_new else ()
    parsed = [parse_report(json.dumps(value).encode()) for value in told]
    values = tuple(value for value in parsed if value is not None)
    return replace(
        seen,
        values=seen.values + values,
        cursor=seen.cursor + _TOLD,
        rejected=seen.rejected + len(parsed) - len(values),
    )
