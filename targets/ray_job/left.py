"""Sends what an ended attempt left on its node to the shared store."""

import hashlib
import re
from dataclasses import replace
from typing import Final

from targets.protocol import AttemptSpec, ExitCause, Target
from targets.ray_job.outputs import OutputSurvey, send_output
from targets.ray_job.records import OUTPUT, SCORE, Record, attempt_path, log_path
from targets.shared_store import SharedStore

_LOG_PIECE: Final = 4 << 20
_GAP: Final = re.compile(rb"\n\[\.\.\. \d+ bytes of output dropped \.\.\.\]\n")


def send_files(store: SharedStore, target: Target, spec: AttemptSpec, record: Record) -> Record:
    """The record completed with what was sent: output, score and log. Idempotent."""
    name, ended = spec.name, record.exit
    survey = OutputSurvey(target.outputs(name).root, spec.limits.output_bytes)
    survey.take()
    output = score_sha256 = None
    if survey.entries:
        output = send_output(store, attempt_path(name, OUTPUT), survey)
    score = target.score(name)
    if score:
        score_sha256 = hashlib.sha256(score).hexdigest()
        store.write(attempt_path(name, SCORE), score)
    if survey.is_too_much and ended.cause is ExitCause.EXITED:
        detail = f"its output is larger than {spec.limits.output_bytes} bytes"
        ended = replace(ended, cause=ExitCause.TOO_MUCH_DATA, detail=detail)
    _send_log(store, target, name)
    return replace(
        record,
        exit=ended,
        output=output,
        output_bytes=survey.total_bytes,
        score_sha256=score_sha256,
    )


def _send_log(store: SharedStore, target: Target, name: str) -> None:
    """The log in pieces, each under the offset of its first byte; what is missing between them
    was dropped."""
    offset = 0
    while True:
        chunk = target.read_log(name, offset=offset, limit=_LOG_PIECE)
        if not chunk.data:
            return
        data, start = chunk.data, chunk.offset
        if start > offset and (gap := _GAP.match(data)) is not None:
            data, start = data[gap.end() :], start + gap.end()
        if data:
            store.write(log_path(name, (start, len(data))), data)
        offset = chunk.offset + len(chunk.data)
