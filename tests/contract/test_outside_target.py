"""What the target promises whose attempts outside workers fetch."""

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ledger.errors import Conflict, InvalidInput, StaleFence
from ledger.records import AttemptKind
from targets.outside import record_files
from targets.outside.record_files import write_at
from targets.outside.records import Records
from targets.outside.target import OutsideTarget
from targets.protocol import AttemptSpec, Exit, ExitCause
from tests.target_runs import attempt

DONE = Exit(cause=ExitCause.EXITED, code=0)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[OutsideTarget]:
    made = OutsideTarget(tmp_path)
    yield made
    made.close()


@pytest.fixture
def worker(tmp_path: Path, target: OutsideTarget) -> Records:
    """What the server does for outside workers, in another process than the target's."""
    return Records(tmp_path)


def spec(**limits: float) -> AttemptSpec:
    made: AttemptSpec = attempt("", limits=limits, document={"trial": "t"})
    return made


def offered(worker: Records) -> list[str]:
    """What nobody has fetched."""
    return [one.name for one in worker.look("arl-") if one.client is None]


def settle(target: OutsideTarget, *handles: str) -> None:
    """Take the news that a first wait always has."""
    target.wait(handles, 0.0)


def test_a_launch_is_an_offer_made_once(target: OutsideTarget, worker: Records) -> None:
    wanted = spec()
    assert target.launch(wanted) == target.launch(wanted) == wanted.name
    assert offered(worker) == [wanted.name]
    assert target.observe(wanted.name, cursor="").exit is None
    assert worker.claim(wanted.name, "one", "a")
    assert target.launch(wanted) == wanted.name
    assert offered(worker) == []


def test_one_of_many_workers_gets_an_attempt(target: OutsideTarget, worker: Records) -> None:
    name = target.launch(spec())
    won: list[int] = []
    start = threading.Barrier(16)

    def claim(number: int) -> None:
        start.wait()
        if worker.claim(name, f"client-{number}", str(number)):
            won.append(number)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert not worker.claim(name, "late", "x")
    assert worker.claim(name, f"client-{won[0]}", "again")


def test_its_end_wakes_who_waits_and_counts_once(target: OutsideTarget, worker: Records) -> None:
    name, other = target.launch(spec()), target.launch(spec())
    worker.claim(name, "one", "a")
    settle(target, name, other)

    def tell() -> None:
        time.sleep(0.1)
        worker.end(name, DONE)

    threading.Thread(target=tell).start()
    began = time.monotonic()
    assert target.wait([name, other], 20.0) == {name}
    assert time.monotonic() - began < 5
    assert not worker.end(name, Exit(cause=ExitCause.EXITED, code=3))
    ended = target.observe(name, cursor="").exit
    assert ended is not None
    assert (ended.cause, ended.code) == (ExitCause.EXITED, 0)


def test_news_that_came_before_is_not_missed(
    target: OutsideTarget, worker: Records, tmp_path: Path
) -> None:
    name = target.launch(spec())
    worker.claim(name, "one", "a")
    worker.end(name, DONE)
    later = OutsideTarget(tmp_path)
    assert later.wait([name], 5.0) == {name}
    later.close()


def test_values_come_in_order(target: OutsideTarget, worker: Records) -> None:
    name = target.launch(spec())
    worker.claim(name, "one", "a")
    lines = b'{"step": 1, "metric": "loss", "value": 0.5}\n'
    worker.hear(name, sent={"reports.jsonl": (lines, 1000)})
    first = target.observe(name, cursor="")
    assert [value.value for value in first.values] == [0.5]
    assert target.observe(name, cursor=first.cursor).values == ()


@pytest.mark.parametrize(
    ("limits", "cause", "words"),
    [
        ({"timeout_s": 0.2}, ExitCause.DEADLINE, "0.2 s"),
        ({"stall_s": 0.2}, ExitCause.LOST, "silent"),
    ],
)
def test_a_worker_that_is_late_or_silent_loses_it(
    target: OutsideTarget, worker: Records, limits: dict[str, float], cause: str, words: str
) -> None:
    name = target.launch(spec(**limits))
    time.sleep(0.3)
    assert target.observe(name, cursor="").exit is None  # nobody has it: no time counts
    worker.claim(name, "one", "a")
    settle(target, name)
    assert target.wait([name], 10.0) == {name}
    ended = target.observe(name, cursor="").exit
    assert ended is not None
    assert ended.cause == cause
    assert words in ended.detail
    assert not worker.end(name, DONE)


def test_a_worker_that_reports_keeps_it(target: OutsideTarget, worker: Records) -> None:
    name = target.launch(spec(stall_s=2.0))
    worker.claim(name, "one", "a")
    for _ in range(5):
        time.sleep(0.5)
        worker.hear(name)
        assert target.observe(name, cursor="").exit is None


def test_stopped_and_killed_attempts_end(target: OutsideTarget, worker: Records) -> None:
    asked, killed, unclaimed = (target.launch(spec(grace_s=1.0)) for _ in range(3))
    for name in (asked, killed):
        worker.claim(name, name, "a")
    target.request_stop(asked)
    target.request_stop(unclaimed)
    assert worker.is_stopping(asked)
    assert target.observe(asked, cursor="").exit is None
    assert target.observe(unclaimed, cursor="").exit is not None
    target.kill(killed)
    target.kill(killed)
    ended = target.observe(killed, cursor="").exit
    assert ended is not None
    assert ended.cause is ExitCause.KILLED
    settle(target, asked)
    assert target.wait([asked], 10.0) == {asked}
    assert target.observe(asked, cursor="").exit is not None
    assert offered(worker) == []


def test_an_ended_attempt_is_released_but_for_its_log(
    target: OutsideTarget, worker: Records
) -> None:
    name = target.launch(spec())
    worker.claim(name, "one", "a")
    worker.hear(name, sent={"log": (b"hello", 1000)})
    with pytest.raises(Conflict):
        target.release(name)
    with pytest.raises(Conflict):
        target.outputs(name)
    assert [found.running for found in target.list_owned("ledger-1")] == [True]
    worker.end(name, DONE, told=())
    target.release(name)
    target.release(name)
    assert target.list_owned("ledger-1") == []
    assert target.read_log(name, offset=0, limit=100).data == b"hello"
    ended = target.observe(name, cursor="").exit
    assert ended is not None
    assert ended.cause is ExitCause.LOST
    assert worker.told_with("a") == name


def test_what_it_does_not_do_is_refused(target: OutsideTarget) -> None:
    with pytest.raises(InvalidInput, match=r"evaluator\.target"):
        target.launch(replace(spec(), kind=AttemptKind.EVALUATE))
    with pytest.raises(InvalidInput, match="image"):
        target.pin(replace(spec().program, image="x"))
    with pytest.raises(InvalidInput, match="handle"):
        target.observe("../x", cursor="")


def test_what_was_released_since_it_was_seen_is_nobodys(
    target: OutsideTarget, worker: Records
) -> None:
    """A slow client saw an offer that a fast one fetched, told of, and had released."""
    name = target.launch(spec())
    assert offered(worker) == [name]
    assert worker.claim(name, "fast", "a")
    assert worker.end(name, DONE, told=())
    target.release(name)
    assert worker.claim(name, "slow", "b") is None
    assert list(worker.names()) == []
    with pytest.raises(StaleFence, match="ask for another"), worker.alone(name):
        pass


def test_an_attempt_on_its_way_out_is_not_seen_half(
    target: OutsideTarget, worker: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its end and its claim it would look like one that is to be had."""
    name = target.launch(spec())
    assert worker.claim(name, "fast", "a")
    worker.hear(name)
    assert worker.end(name, DONE, told=())
    seen: list[object] = []

    def look(*_: object, **__: object) -> None:
        seen.append((list(worker.names()), worker.read_offer(name), worker.claim(name, "x", "b")))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", look)
        target.release(name)
    assert seen == [([], None, None)]
    target.release(name)
    assert list((worker.root / "gone").iterdir()) == [], "what was cut short goes with the next"


def test_what_came_with_the_end_is_told_once_and_after_everything_else(
    target: OutsideTarget, worker: Records
) -> None:
    name = target.launch(spec())
    worker.claim(name, "one", "a")
    worker.hear(name, sent={"reports.jsonl": (b'{"step": 1, "metric": "loss", "value": 2}\n', 99)})
    last = {"step": 2, "metric": "loss", "value": 1.0}
    assert worker.end(name, DONE, told=[last, {"step": 2, "metric": "\n", "value": 1.0}])
    seen = target.observe(name, cursor="")
    assert [(one.step, one.value) for one in seen.values] == [(1, 2.0), (2, 1.0)]
    assert (seen.rejected, seen.more) == (1, False)
    again = target.observe(name, cursor=seen.cursor)
    assert (again.values, again.rejected, again.cursor) == ((), 0, seen.cursor)
    assert target.observe(name, cursor="") == seen, "as a worker reads it that came after a crash"


def test_a_trial_that_is_only_told_of_is_one_file(
    target: OutsideTarget, worker: Records, tmp_path: Path
) -> None:
    def made() -> list[str]:
        return [str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()]

    name = target.launch(spec())
    worker.claim(name, "one", "ab")
    worker.end(name, DONE, told=[{"step": 0, "metric": "score", "value": 1.0}])
    target.observe(name, cursor="")
    assert made() == [f"records/{name}"]
    target.release(name)
    assert made() == ["told/ab"]
    assert worker.told_with("ab") == name
    assert worker.told_with("abc") is None


def test_a_fact_that_was_cut_off_is_none(
    target: OutsideTarget, worker: Records, tmp_path: Path
) -> None:
    name = target.launch(spec())
    with (tmp_path / "records" / name).open("ab") as record:
        record.write(b'\n{"claim": {"client": "killed", "tok')
    assert offered(worker) == [name]
    assert worker.claim(name, "one", "a")
    with (tmp_path / "records" / name).open("ab") as record:
        record.write(b"\0\0\0")
    assert worker.end(name, DONE)
    assert worker.read(name).token == "a"


class Killed(Exception):
    """In place of the end of this process."""


@pytest.mark.parametrize("arrived", [0, 7, 1000])
def test_a_report_that_was_cut_short_and_is_sent_again_counts_once(
    target: OutsideTarget, worker: Records, monkeypatch: pytest.MonkeyPatch, arrived: int
) -> None:
    name = target.launch(spec())
    worker.claim(name, "one", "a")
    lines = [b'{"step": %d, "metric": "loss", "value": 0.5}\n' % step for step in range(3)]
    first, second = ({"reports.jsonl": (line, 1000)} for line in lines[:2])
    worker.hear(name, 1, first)

    def cut_short(path: Path, start: int, data: bytes) -> None:
        write_at(path, start, data[:arrived])
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(record_files, "write_at", cut_short)
        with pytest.raises(Killed):
            worker.hear(name, 2, second)
    for number in (2, 2, 1):
        worker.hear(name, number, second if number == 2 else first)
    worker.hear(name, 3, {"reports.jsonl": (lines[2], 1000)})
    assert [one.step for one in target.observe(name, cursor="").values] == [0, 1, 2]


def test_another_server_sees_who_has_what(tmp_path: Path, target: OutsideTarget) -> None:
    """What a server remembers of an attempt is read again once another one has changed it."""
    one, other = Records(tmp_path), Records(tmp_path)
    name = target.launch(spec())
    assert offered(one) == offered(other) == [name]
    assert one.claim(name, "client", "a")
    assert [(seen.name, seen.client) for seen in other.look("arl-")] == [(name, "client")]
    assert other.claim(name, "stranger", "b") is None
    assert other.claim(name, "client", "c")
    assert one.read(name).token == "c"
    one.end(name, DONE)
    assert one.look("arl-") == other.look("arl-") == []


def test_what_is_sent_of_a_released_attempt_leaves_nothing(
    target: OutsideTarget, worker: Records, tmp_path: Path
) -> None:
    name = target.launch(spec())
    worker.claim(name, "one", "a")
    worker.end(name, DONE)
    target.release(name)
    with pytest.raises(StaleFence), worker.alone(name):
        worker.hear(name)
    worker.end(name, DONE)
    worker.request_stop(name)
    assert [one for one in tmp_path.rglob("*") if name in one.name] == []
