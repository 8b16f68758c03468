"""Reads what an attempt's proxy recorded: each request once, in the order in which they ended."""

import json
import os
from typing import Final, NamedTuple

from targets import layout
from targets.egress.record import FILE, MAX_REQUESTS, Line
from targets.protocol import NetworkRequest

_PIECE_BYTES: Final = 1024 * 1024
_DONE: Final = "!"
"""After the offset in a cursor: what never ended was told too."""
_CUT: Final = "its proxy was ended before it was over"


class Requests(NamedTuple):
    requests: tuple[NetworkRequest, ...]
    cursor: str
    more: bool


def read_requests(directory: str, cursor: str, *, ended: bool) -> Requests:
    """The requests since `cursor` out of the proxy's directory, and the next cursor. Once the
    attempt `ended` those that never did come last, and then how many were only counted."""
    if cursor.endswith(_DONE):
        return Requests((), cursor, more=False)
    offset = int(cursor or 0)
    data = _read(directory, offset, _PIECE_BYTES)
    if data is None:
        return Requests((), cursor, more=False)
    whole = data[: data.rfind(b"\n") + 1]
    found = [_request(line) for line in _lines(whole) if line.get("ended")]
    offset += len(whole)
    if len(data) == _PIECE_BYTES:
        return Requests(tuple(found), str(offset), more=True)
    if not ended:
        return Requests(tuple(found), str(offset), more=False)
    found += _left_open(directory)
    return Requests(tuple(found), f"{offset}{_DONE}", more=False)


def _left_open(directory: str) -> list[NetworkRequest]:
    """Of the whole file, which is bounded: what began and did not end, and the last count."""
    begun: dict[int, Line] = {}
    count: Line | None = None
    at = 0
    while piece := _read(directory, at, _PIECE_BYTES):
        whole = piece[: piece.rfind(b"\n") + 1] or piece
        for line in _lines(whole):
            if "more" in line:
                count = line
            elif line.get("ended"):
                begun.pop(line["number"], None)
            else:
                begun[line["number"]] = {**line, "detail": _CUT}
        at += len(whole)
    found = [_request(line) for line in begun.values()]
    return found if count is None else [*found, _counted(count)]


def _counted(line: Line) -> NetworkRequest:
    why = f"{line['more']} more were refused: one attempt may make {MAX_REQUESTS}"
    return NetworkRequest(at=line["at"], method="?", host="", port=0, allowed=False, detail=why)


def _request(line: Line) -> NetworkRequest:
    return NetworkRequest(
        at=line["at"],
        method=line["method"],
        host=line["host"],
        port=line["port"],
        allowed=line["allowed"],
        detail=layout.one_line(line.get("detail", "")),
        sent_bytes=line.get("sent", 0),
        received_bytes=line.get("received", 0),
    )


def _lines(data: bytes) -> list[Line]:
    """Those that are whole: a full disk may have cut one off."""
    found = []
    for text in data.split(b"\n"):
        try:
            line = json.loads(text) if text else None
        except ValueError:
            continue
        if isinstance(line, dict) and "at" in line:
            found.append(line)
    return found


def _read(directory: str, offset: int, limit: int) -> bytes | None:
    """None where there is no file: there is no proxy, or it did not start."""
    try:
        descriptor = os.open(f"{directory}/{FILE}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.pread(descriptor, limit, offset)
    finally:
        os.close(descriptor)
