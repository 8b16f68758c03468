"""A log keeps its head and its tail, and an offset means the same byte for ever."""

import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from targets.program_log import LogWriter, log_files, read_log


def read_from(path: Path, offset: int, limit: int) -> tuple[bytes, list[tuple[int, bytes]]]:
    """All that can be read from `offset` on, and the chunks with their offsets."""
    data, chunks = b"", []
    while True:
        piece, start, _ = read_log(str(path), offset, limit)
        if not piece:
            return data, chunks
        assert start >= offset
        assert len(piece) <= limit
        chunks.append((start, piece))
        data += piece
        offset = start + len(piece)


@settings(max_examples=40)
@given(
    st.integers(4, 4000),
    st.lists(st.integers(1, 3000), max_size=20),
    st.integers(0, 2**32),
    st.integers(1, 5000),
)
def test_every_kept_byte_is_found_at_its_offset(
    quota: int,
    sizes: list[int],
    seed: int,
    limit: int,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        check_kept_bytes(Path(directory, "log"), quota, sizes, seed, limit)


def check_kept_bytes(path: Path, quota: int, sizes: list[int], seed: int, limit: int) -> None:
    writer, whole, chance = LogWriter(str(path), quota), b"", random.Random(seed)
    for size in sizes:
        piece = bytes(chance.choices(b"abcdefgh\n", k=size))
        whole += piece
        writer.write(piece)
    writer.close()
    files = log_files(str(path))
    assert sum(Path(name).stat().st_size for _, name in files) <= quota + 1
    _, chunks = read_from(path, 0, limit)
    head = min(max(quota // 2, 1), len(whole))
    dropped_to = files[1][0] if len(files) > 1 else head
    for start, piece in chunks:
        if start < head or start >= dropped_to:
            assert whole[start : start + len(piece)] == piece
    if chunks:
        last_start, last = chunks[-1]
        assert last_start + len(last) == len(whole)
    assert read_log(str(path), 0, 0)[2] == len(whole)
    kept = len(whole) - dropped_to
    assert len(whole) <= quota // 2 or kept >= min(quota // 4, len(whole) - head)


def test_one_line_says_how_much_was_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = LogWriter(str(path), 400)
    for number in range(1000):
        writer.write(b"%03d\n" % number)
    text = read_from(path, 0, 70)[0].decode()
    head, _, rest = text.partition("\n[... ")
    dropped, _, tail = rest.partition(" bytes of output dropped ...]\n")
    assert head.startswith("000\n001\n")
    assert tail.endswith("998\n999\n")
    assert len(head) + int(dropped) + len(tail) == 4000
    assert 300 <= len(head) + len(tail) <= 400


def test_the_tail_is_read_while_the_program_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = LogWriter(str(path), 400)
    writer.write(b"a" * 10_000)
    size = read_log(str(path), 0, 0)[2]
    assert read_log(str(path), size - 20, 20) == (b"a" * 20, 9980, 10_000)
    writer.write(b"b" * 50)
    assert read_log(str(path), size, 100) == (b"b" * 50, 10_000, 10_050)


def test_a_log_that_cannot_be_written_loses_bytes_and_nothing_else(tmp_path: Path) -> None:
    writer = LogWriter(str(tmp_path / "none" / "log"), 400)
    writer.write(b"x" * 1000)
    writer.close()
    assert writer.lost == 1000
