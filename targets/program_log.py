"""A program's output kept within a quota: the head and the tail, the middle dropped.

Standard library only. The head is one file; past it the output goes to segments named by the
offset of their first byte, and only the last two segments are kept. So every file says by its
name which bytes of the whole output it holds, at any moment and after any crash, and an offset
means the same byte for ever.
"""

import os

_PIECE_BYTES = 64 * 1024


class LogWriter:
    """Appends to `<path>` and its segments. Memory is bounded and a full disk only loses bytes."""

    def __init__(self, path: str, quota_bytes: int) -> None:
        self._path = path
        self._segment_bytes = max(quota_bytes // 4, 1)
        self._file_ends_at = max(quota_bytes // 2, 1)
        self._descriptor = -1
        self._segments: list[str] = []
        self.total = 0
        """Bytes of output so far, dropped ones included."""
        self.lost = 0
        """Bytes that could not be written because the disk was full."""

    def write(self, data: bytes) -> None:
        while data:
            piece = data[: self._file_ends_at - self.total]
            if not piece:
                self._next_segment()
                continue
            self._append(piece)
            self.total += len(piece)
            data = data[len(piece) :]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, piece: bytes) -> None:
        try:
            if self._descriptor < 0:
                self._descriptor = self._open()
            written = os.pwrite(self._descriptor, piece, self.total - self._file_starts_at)
            self.lost += len(piece) - written
        except OSError:
            self.lost += len(piece)

    @property
    def _file_starts_at(self) -> int:
        return int(self._segments[-1].rpartition(".")[2]) if self._segments else 0

    def _open(self) -> int:
        path = self._segments[-1] if self._segments else self._path
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, 0o600)

    def _next_segment(self) -> None:
        self.close()
        self._segments.append(f"{self._path}.{self.total}")
        self._file_ends_at = self.total + self._segment_bytes
        if len(self._segments) > 2:
            try:
                os.unlink(self._segments.pop(0))
            except OSError:
                pass  # its bytes are dropped either way; it only takes room a little longer


def log_files(path: str) -> list[tuple[int, str]]:
    """The files of the log at `path` with the offset of their first byte, in order."""
    directory, base = os.path.split(path)
    found: list[tuple[int, str]] = []
    try:
        names = os.listdir(directory)
    except OSError:
        return found
    for name in names:
        if name == base:
            found.append((0, f"{directory}/{name}"))
        elif name.startswith(f"{base}.") and name[len(base) + 1 :].isdecimal():
            found.append((int(name[len(base) + 1 :]), f"{directory}/{name}"))
    return sorted(found)


def read_log(path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
    """At most `limit` bytes from `offset` on, the offset they really start at, and the size of
    the whole output. Where bytes were dropped, one line saying how many stands for them: it
    takes the place of the last of the dropped bytes, so offsets after it stay true."""
    size = 0
    kept_to = 0
    answer: tuple[bytes, int] | None = None
    for start, name in log_files(path):
        data, length = _read_piece(name, offset - start, limit)
        size = start + length
        if answer is None and start > max(offset, kept_to):
            answer = _gap(kept_to, start, offset, limit)
        if answer is None and data:
            answer = (data, max(offset, start))
        kept_to = size
    data, start = answer or (b"", min(offset, size))
    return data, start, size


def _gap(dropped_from: int, dropped_to: int, offset: int, limit: int) -> tuple[bytes, int]:
    line = f"\n[... {dropped_to - dropped_from} bytes of output dropped ...]\n".encode()
    line = line[-(dropped_to - dropped_from) :]
    start = dropped_to - len(line)
    if offset > start:
        line, start = line[offset - start :], offset
    return line[:limit], start


def _read_piece(name: str, offset: int, limit: int) -> tuple[bytes, int]:
    """Bytes of one file from max(offset, 0) on, and its length; nothing when it is gone."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b"", 0
    try:
        length = os.fstat(descriptor).st_size
        return os.pread(descriptor, max(limit, 0), max(offset, 0)), length
    finally:
        os.close(descriptor)
