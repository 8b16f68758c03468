"""Reads what a program reported so far; nothing in its file can stop or mislead the reader."""

import json
import math
import os
import re
import stat
from typing import Final, NamedTuple

from ledger.records import IntermediateValue

LINE_BYTES: Final = 64 * 1024
"""A longer line is skipped without being held in memory."""
VALUES_PER_CALL: Final = 4000
METRIC_CHARACTERS: Final = 200
_PIECE_BYTES: Final = 1024 * 1024
_MAX_STEP: Final = 2**53
_SKIPPING: Final = "+"
"""After the offset in a cursor: inside a line that is too long."""
_FULL: Final = "!"
"""After the offset in a cursor: the quota is used up and that was counted."""
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NAMED_VALUES: Final = {
    "nan": math.nan,
    "inf": math.inf,
    "infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}


class Reports(NamedTuple):
    values: tuple[IntermediateValue, ...]
    cursor: str
    more: bool
    rejected: int


def read_reports(path: str, cursor: str, *, quota_bytes: int, ended: bool) -> Reports:
    """The values reported since `cursor`, and the cursor for the next call.

    A last line without its newline waits, unless the program `ended`. Lines that are no report
    are counted as rejected; so is, once, whatever comes after `quota_bytes`.
    """
    offset, flag = _parse_cursor(cursor)
    if flag == _FULL:
        return Reports((), cursor, more=False, rejected=0)
    size, data = _read(path, offset, min(_PIECE_BYTES, quota_bytes - offset))
    is_over = size > quota_bytes
    whole = _whole_lines(data, at_end=ended and not is_over and offset + len(data) >= size)
    skipping = flag == _SKIPPING
    values, used, rejected = _parse_lines(whole, skipping=skipping)
    if whole:
        flag = ""
    elif len(data) > LINE_BYTES:  # no newline in sight: drop it, and the rest when it comes
        used, flag, rejected = len(data), _SKIPPING, int(not skipping)
    elif is_over and offset + len(data) >= quota_bytes:
        flag, rejected = _FULL, 1
    more = used > 0 and (used < len(whole) or len(data) == _PIECE_BYTES or is_over)
    return Reports(values, f"{offset + used}{flag}", more=more, rejected=rejected)


def _parse_cursor(cursor: str) -> tuple[int, str]:
    flag = cursor[-1:] if cursor[-1:] in (_SKIPPING, _FULL) else ""
    return int(cursor.rstrip(_SKIPPING + _FULL) or 0), flag


def _read(path: str, offset: int, limit: int) -> tuple[int, bytes]:
    """Size of the file, and bytes from `offset`. Nothing of what is not a regular file: the
    program may have put a pipe or a link to a device there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return 0, b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return 0, b""
        return status.st_size, os.pread(descriptor, max(limit, 0), offset)
    finally:
        os.close(descriptor)


def _whole_lines(data: bytes, *, at_end: bool) -> bytes:
    return data if at_end else data[: data.rfind(b"\n") + 1]


def _parse_lines(data: bytes, *, skipping: bool) -> tuple[tuple[IntermediateValue, ...], int, int]:
    """Values, bytes used (all of `data` unless there are too many values) and lines rejected."""
    values: list[IntermediateValue] = []
    used = rejected = 0
    for line in data.splitlines(keepends=True) if b"\r" not in data else _split(data):
        if len(values) == VALUES_PER_CALL:
            break
        used += len(line)
        if skipping:  # the end of a line that was counted before
            skipping = False
        elif line.strip():
            value = parse_report(line)
            if value is None:
                rejected += 1
            else:
                values.append(value)
    return tuple(values), used, rejected


def _split(data: bytes) -> list[bytes]:
    """Lines end at newlines only."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + data.split(b"\n")[-1:]


def parse_report(line: bytes) -> IntermediateValue | None:
    """The value that one line reports, or None when it is not a report."""
    if len(line) > LINE_BYTES:
        return None
    try:
        report = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict):
        return None
    step, metric, value = (report.get(key) for key in ("step", "metric", "value"))
    step, value = _as_step(step), _as_number(value)
    if step is None or value is None or not isinstance(metric, str):
        return None
    if not 0 < len(metric) <= METRIC_CHARACTERS or _UNPRINTABLE.search(metric):
        return None
    return IntermediateValue(step=step, metric=metric, value=value)


def _as_step(step: object) -> int | None:
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= _MAX_STEP:
        return None
    return step


def _as_number(value: object) -> float | None:
    """A number, or the name of one that JSON has no number for."""
    if isinstance(value, str):
        return _NAMED_VALUES.get(value.lower())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
