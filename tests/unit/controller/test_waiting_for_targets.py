"""Waiting for several targets: the first with news ends the wait for all of them."""

import threading
import time
from collections.abc import Collection
from typing import Any

import pytest

from controller.worker.waiting import News, wait_for_any
from ledger.errors import DiskFull, TargetUnavailable


class Place:
    """A target that only waits."""

    def __init__(self, name: str, *, after_s: float | None = None, error: Any = None) -> None:
        self.name = name
        self.waits = 0
        self._after_s = after_s
        self._error = error
        self._woken = threading.Event()

    def wait(self, handles: Collection[str], timeout_s: float) -> set[str]:
        self.waits += 1
        if self._error is not None:
            raise self._error
        if self._woken.wait(min(timeout_s, self._after_s or timeout_s)):
            self._woken.clear()
            return set()
        return set(handles) if self._after_s is not None else set()

    def interrupt(self) -> None:
        self._woken.set()


def wait(*places: tuple[Place, list[str]], timeout_s: float = 20.0) -> tuple[News, float]:
    started = time.monotonic()
    found = wait_for_any(list(places), timeout_s)  # type: ignore[arg-type]
    assert threading.active_count() == 1, "no thread is left waiting"
    return found, time.monotonic() - started


def test_the_first_to_have_news_ends_the_wait_for_the_others() -> None:
    fast, slow = Place("fast", after_s=0.05), Place("slow")
    found, waited_s = wait((slow, ["s1"]), (fast, ["f1"]))
    assert found == News({"f1"}, away=False)
    assert waited_s < 10


def test_an_interrupt_of_one_ends_the_wait_for_all() -> None:
    one, other = Place("one"), Place("other")
    timer = threading.Timer(0.05, other.interrupt)
    timer.start()
    started = time.monotonic()
    assert wait_for_any([(one, ["a"]), (other, ["b"])], 20.0).handles == set()  # type: ignore[list-item]
    timer.join()
    assert time.monotonic() - started < 10


def test_nothing_new_anywhere_ends_at_the_time_out() -> None:
    found, waited_s = wait((Place("one"), ["a"]), (Place("other"), ["b"]), timeout_s=0.1)
    assert found == News(set(), away=False)
    assert 0.09 < waited_s < 10


def test_a_target_that_is_away_gives_its_handles_to_be_looked_at_and_no_others() -> None:
    away = Place("away", error=TargetUnavailable("gone"))
    found, _ = wait((Place("here"), ["h1"]), (away, ["a1", "a2"]))
    assert found == News({"a1", "a2"}, away=True)
    assert wait((away, ["a1"]))[0] == News({"a1"}, away=True)


def test_any_other_failure_comes_out_where_it_was_asked_for() -> None:
    with pytest.raises(DiskFull):
        wait((Place("here"), ["h"]), (Place("full", error=DiskFull("full")), ["f"]))


def test_a_single_target_is_waited_for_without_a_thread() -> None:
    seen: list[str] = []
    place = Place("only", after_s=0.01)
    original = place.wait

    def noting(handles: Collection[str], timeout_s: float) -> set[str]:
        seen.append(threading.current_thread().name)
        return original(handles, timeout_s)

    place.wait = noting  # type: ignore[method-assign]
    assert wait((place, ["h"]))[0].handles == {"h"}
    assert seen == [threading.main_thread().name]
