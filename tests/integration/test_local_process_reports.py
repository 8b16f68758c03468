"""The report reader takes every report once and survives everything else."""

import json
import math
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.records import IntermediateValue
from targets.reports import LINE_BYTES, VALUES_PER_CALL, parse_report, read_reports

QUOTA = 1 << 30


def line(step: object = 1, metric: object = "loss", value: object = 0.5) -> bytes:
    return json.dumps({"step": step, "metric": metric, "value": value}).encode()


def read_all(
    path: Path, cursor: str = "", *, ended: bool = True, quota_bytes: int = QUOTA
) -> tuple[list[IntermediateValue], str, int]:
    values: list[IntermediateValue] = []
    rejected, more = 0, True
    while more:
        seen = read_reports(str(path), cursor, quota_bytes=quota_bytes, ended=ended)
        assert len(seen.values) <= VALUES_PER_CALL
        assert seen.cursor != cursor or not seen.more, "it makes progress"
        values += seen.values
        cursor, more, rejected = seen.cursor, seen.more, rejected + seen.rejected
    return values, cursor, rejected


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0.5", 0.5),
        ("3", 3.0),
        ("-1e-9", -1e-9),
        ("NaN", math.nan),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ('"nan"', math.nan),
        ('"inf"', math.inf),
        ('"-inf"', -math.inf),
        ("1e999", math.inf),
        ("-1e999", -math.inf),
        ("1" + "0" * 400, math.inf),
    ],
)
def test_a_number_is_read_as_it_was_said(written: str, value: float) -> None:
    seen = parse_report(b'{"step": 1, "metric": "loss", "value": %s}' % written.encode())
    assert seen is not None
    assert seen.value == value or (math.isnan(value) and math.isnan(seen.value))


@pytest.mark.parametrize(
    "bad",
    [
        b"loss: 0.5",
        b"{",
        b"[1, 2]",
        b"null",
        b'"x"',
        b"{}",
        line(step=-1),
        line(step=1.5),
        line(step=True),
        line(step="1"),
        line(step=2**60),
        line(step=None),
        line(metric=""),
        line(metric="x" * 201),
        line(metric=3),
        line(metric="a\nb"),
        line(metric="\u2028"),
        b'{"step": 1, "metric": "\\ud800", "value": 1}',
        line(value=None),
        line(value=True),
        line(value="0.5"),
        line(value=[1]),
        b"[" * 60_000,
        b'{"step": 1, "metric": "m", "value": ' + b"9" * 5000 + b"}",
        b"\xff\xfe\x00",
        b"\x00",
    ],
)
def test_what_is_no_report_is_counted_and_skipped(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "reports"
    path.write_bytes(line(1) + b"\n" + bad + b"\n\n  \n" + line(2) + b"\n")
    values, _, rejected = read_all(path)
    assert [v.step for v in values] == [1, 2]
    assert rejected == 1


def test_extra_keys_whole_steps_and_undecodable_bytes_are_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    path.write_bytes(
        b'{"step": 3.0, "metric": "loss", "value": 1, "when": "now"}\r\n'
        b'{"step": 4, "metric": "a\xffb", "value": 1}\n'
    )
    values, _, rejected = read_all(path)
    assert [(v.step, v.metric) for v in values] == [(3, "loss"), (4, "a\ufffdb")]
    assert rejected == 0


def test_a_line_without_its_end_waits_until_the_program_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    path.write_bytes(line(1) + b"\n" + line(2)[:10])
    values, cursor, _ = read_all(path, ended=False)
    assert [v.step for v in values] == [1]
    assert read_all(path, cursor, ended=False) == ([], cursor, 0)
    path.write_bytes(line(1) + b"\n" + line(2))
    assert read_all(path, cursor, ended=False)[0] == []
    values, cursor, rejected = read_all(path, cursor, ended=True)
    assert [v.step for v in values] == [2]
    assert rejected == 0
    assert read_all(path, cursor, ended=True)[0] == []


def test_a_line_cut_off_by_a_kill_is_rejected_once(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    path.write_bytes(line(1) + b"\n" + line(2)[:-3])
    values, cursor, rejected = read_all(path, ended=True)
    assert ([v.step for v in values], rejected) == ([1], 1)
    assert read_all(path, cursor, ended=True) == ([], cursor, 0)


def test_more_values_than_one_call_gives_come_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    count = 2 * VALUES_PER_CALL + 5
    path.write_bytes(b"".join(line(step) + b"\n" for step in range(count)))
    first = read_reports(str(path), "", quota_bytes=QUOTA, ended=True)
    assert (len(first.values), first.more) == (VALUES_PER_CALL, True)
    values, _, rejected = read_all(path)
    assert [v.step for v in values] == list(range(count))
    assert rejected == 0


def test_an_endless_line_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    path.write_bytes(line(1) + b"\n" + b"x" * (5 * 1024 * 1024) + b"\n" + line(2) + b"\n")
    values, _, rejected = read_all(path, ended=False)
    assert ([v.step for v in values], rejected) == ([1, 2], 1)


def test_an_endless_line_that_goes_on_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    path.write_bytes(b"x" * (LINE_BYTES + 10))
    _, cursor, rejected = read_all(path, ended=False)
    assert rejected == 1
    with path.open("ab") as file:
        file.write(b"y" * (LINE_BYTES + 10))
    _, cursor, rejected = read_all(path, cursor, ended=False)
    assert rejected == 0
    with path.open("ab") as file:
        file.write(b"z\n" + line(7) + b"\n")
    values, _, rejected = read_all(path, cursor, ended=False)
    assert ([v.step for v in values], rejected) == ([7], 0)


def test_what_exceeds_the_quota_is_ignored_and_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    row = line(1) + b"\n"
    path.write_bytes(row * 10)
    values, cursor, rejected = read_all(path, quota_bytes=len(row) * 4 + 7)
    assert (len(values), rejected) == (4, 1)
    with path.open("ab") as file:
        file.write(row)
    assert read_all(path, cursor, quota_bytes=len(row) * 4 + 7) == ([], cursor, 0)


def test_a_missing_file_or_one_that_shrank_has_nothing_new(tmp_path: Path) -> None:
    assert read_all(tmp_path / "none") == ([], "0", 0)
    path = tmp_path / "reports"
    path.write_bytes(line(1) + b"\n")
    _, cursor, _ = read_all(path)
    path.write_bytes(b"")
    assert read_all(path, cursor) == ([], cursor, 0)


RHYTHM = [300, 20_000, LINE_BYTES, 2 * LINE_BYTES]
pieces = st.lists(
    st.one_of(
        st.builds(line, st.integers(0, 99), st.sampled_from(["a", "b/c"]), st.floats(width=32)),
        st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")),
        st.integers(LINE_BYTES + 1, LINE_BYTES + 9).map(lambda size: b"x" * size),
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(pieces, st.integers(0, 2**32), st.booleans())
def test_reading_in_any_rhythm_gives_what_reading_at_once_does(
    lines: list[bytes], seed: int, with_end: bool
) -> None:
    whole = b"\n".join(lines) + (b"\n" if with_end else b"")
    with tempfile.TemporaryDirectory() as directory:
        check_rhythm(Path(directory), whole, seed)


def check_rhythm(directory: Path, whole: bytes, seed: int) -> None:
    path = directory / "whole"
    path.write_bytes(whole)
    at_once = read_all(path)
    growing, chance = directory / "growing", random.Random(seed)
    values: list[IntermediateValue] = []
    cursor, rejected, written = "", 0, 0
    growing.write_bytes(b"")
    while written < len(whole):
        step = chance.choice(RHYTHM if len(whole) > LINE_BYTES else [1, 7, 100])
        with growing.open("ab") as file:
            file.write(whole[written : written + step])
        written += step
        new, cursor, bad = read_all(growing, cursor, ended=False)
        values, rejected = values + new, rejected + bad
    new, cursor, bad = read_all(growing, cursor)
    assert repr(values + new) == repr(at_once[0])
    assert rejected + bad == at_once[2]
    assert cursor.rstrip("+!") == at_once[1].rstrip("+!")
