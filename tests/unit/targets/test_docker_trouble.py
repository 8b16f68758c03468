"""What of an engine's troubles controllers hear, and for how long."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from targets.docker_container.trouble import (
    LOG_BYTES,
    PATIENCE_S,
    Troubles,
    find_standing,
    write_down,
)


class Hands:
    """Of a clock that only tests move."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(time, "monotonic", hands)
    return hands


def meet(troubles: Troubles, clock: Hands, what: str, for_s: float) -> list[bool]:
    """The same trouble once a second."""
    woken = []
    for _ in range(int(for_s)):
        woken.append(troubles.note(what))
        clock.now += 1.0
    return woken


def test_a_short_trouble_is_told_to_nobody(tmp_path: Path, clock: Hands) -> None:
    troubles = Troubles(str(tmp_path))
    assert True not in meet(troubles, clock, "connection refused", PATIENCE_S)
    assert find_standing(str(tmp_path)) is None


def test_a_lasting_trouble_wakes_controllers_once_and_is_told_until_it_is_over(
    tmp_path: Path, clock: Hands
) -> None:
    troubles = Troubles(str(tmp_path))
    woken = meet(troubles, clock, "connection refused", PATIENCE_S + 30)
    assert woken.count(True) == 1
    standing = find_standing(str(tmp_path))
    assert standing is not None
    assert (standing.detail, standing.is_full) == ("connection refused", False)
    troubles.clear()
    assert find_standing(str(tmp_path)) is None
    assert True not in meet(troubles, clock, "connection refused", PATIENCE_S)


def test_a_full_disk_is_told_at_once_and_as_that(tmp_path: Path, clock: Hands) -> None:
    assert Troubles(str(tmp_path)).note("write /x: no space left on device")
    standing = find_standing(str(tmp_path))
    assert standing is not None
    assert standing.is_full


def test_a_trouble_not_met_again_is_over(tmp_path: Path, clock: Hands) -> None:
    Troubles(str(tmp_path)).note("no space left on device")
    clock.now += 60.0
    assert find_standing(str(tmp_path)) is None


def test_what_another_boot_left_is_no_trouble(tmp_path: Path, clock: Hands) -> None:
    Troubles(str(tmp_path)).note("no space left on device")
    clock.now = 3.0
    assert find_standing(str(tmp_path)) is None
    (tmp_path / "trouble.json").write_text("half")
    assert find_standing(str(tmp_path)) is None


def test_a_keeper_that_cannot_tell_goes_on(tmp_path: Path, clock: Hands) -> None:
    assert not Troubles(str(tmp_path / "gone")).note("no space left on device")


@contextmanager
def stderr_at(path: str) -> Iterator[None]:
    kept, opened = os.dup(2), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(opened, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(opened)


def test_a_full_disk_is_no_further_trouble_for_whoever_writes_one_down(tmp_path: Path) -> None:
    with stderr_at("/dev/full"):
        write_down("no space left on device")
    log = tmp_path / "supervisor.log"
    with stderr_at(str(log)):
        write_down("there is space again")
    assert log.read_text().endswith("engine: there is space again\n")


def test_a_log_of_troubles_that_got_long_begins_anew(tmp_path: Path) -> None:
    log = tmp_path / "supervisor.log"
    with stderr_at(str(log)):
        write_down("first")
        os.truncate(log, LOG_BYTES)
        write_down("second")
        assert log.stat().st_size > LOG_BYTES
        write_down("third")
    assert log.read_text().endswith("engine: third\n")
    assert log.stat().st_size < 100
