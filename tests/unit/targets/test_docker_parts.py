"""Small parts of the Docker target that need no engine."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import InvalidInput
from targets.docker_container.address import address_of, find_problem, silence_of
from targets.docker_container.attach import LogStream, NoContainer
from targets.docker_container.box import BoxLog
from targets.docker_container.calls import Refusal
from targets.docker_container.images import _digest_here, _repository
from targets.docker_container.making import Making
from targets.docker_container.network import Network
from targets.docker_container.record import Record
from targets.docker_container.skeleton import system_archive, system_image
from targets.docker_container.target import engine_warnings
from targets.docker_container.turns import Turns
from targets.docker_container.usage import ControlGroups, Usage, is_neighbour
from targets.egress import access
from targets.program_log import LogWriter, read_log


@contextmanager
def engine_that_answers(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    """Something at a socket that says one thing to whoever asks; what it was asked."""
    heard: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def serve() -> None:
        asking, _ = listener.accept()
        with asking:
            heard.append(asking.recv(65536))
            for at in range(0, len(answer), 7):
                asking.sendall(answer[at : at + 7])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield heard
    finally:
        thread.join(10)
        listener.close()


def frame(data: bytes, stream: int = 1) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def listen(path: Path, *, known: int | None = 0, is_new: bool = True) -> bytes:
    said = bytearray()
    stream = LogStream(str(path), "1.41", "box", said.extend, known, is_new=is_new)
    while stream.pump():
        pass
    stream.close()
    return bytes(said)


def test_output_comes_out_of_its_frames_however_they_are_cut(tmp_path: Path) -> None:
    head = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"
    frames = frame(b"first\n") + frame(b"", 2) + frame(b"second\n", 2) + frame(b"x" * 1000)
    with engine_that_answers(tmp_path / "s", head + frames) as heard:
        assert listen(tmp_path / "s") == b"first\nsecond\n" + b"x" * 1000
    assert heard[0].startswith(b"POST /v1.41/containers/box/attach?stream=1&")


@pytest.mark.parametrize("known", [0, 3, 6, 9, 100])
def test_what_is_known_already_is_not_taken_twice(tmp_path: Path, known: int) -> None:
    answer = b"HTTP/1.0 200 OK\r\n\r\n" + frame(b"first\n") + frame(b"second\n")
    with engine_that_answers(tmp_path / "s", answer) as heard:
        said = listen(tmp_path / "s", known=known, is_new=False)
    assert said == b"first\nsecond\n"[known:]
    assert b"tail=all" in heard[0]


def test_where_the_past_is_lost_only_the_future_is_asked_for(tmp_path: Path) -> None:
    with engine_that_answers(tmp_path / "s", b"HTTP/1.0 200 OK\r\n\r\n" + frame(b"new")) as heard:
        assert listen(tmp_path / "s", known=None, is_new=False) == b"new"
    assert b"tail=0" in heard[0]


def test_a_container_that_is_gone_has_no_output(tmp_path: Path) -> None:
    with (
        engine_that_answers(tmp_path / "s", b"HTTP/1.0 404 Not Found\r\n\r\n"),
        pytest.raises(NoContainer),
    ):
        listen(tmp_path / "s")


def test_a_log_goes_on_where_another_writer_ended(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    for quota in (1000, 40):
        whole = b"".join(b"line %d\n" % n for n in range(30))
        for name in tmp_path.iterdir():
            name.unlink()
        first = LogWriter(path, quota)
        first.write(whole[:100])
        first.close()
        second = BoxLog(path, quota)
        assert second.total == 100
        second.write(whole[100:])
        second.close()
        _, _, size = read_log(path, 0, 10_000)
        assert size == len(whole)
        tail, start, _ = read_log(path, len(whole) - 8, 100)
        assert tail == whole[start:]


@pytest.mark.parametrize(
    "address", ["tcp://10.0.0.1:2375", "ssh://me@there", "http://x", "unix://relative", ""]
)
def test_an_engine_elsewhere_is_refused_in_one_sentence(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"needs an engine on this machine"):
        address_of({"engine": address})
    assert "needs an engine on this machine" in (find_problem({"engine": address}) or "")


def test_an_engine_that_is_not_there_is_said_with_what_to_do(tmp_path: Path) -> None:
    problem = find_problem({"engine": f"unix://{tmp_path}/docker.sock"})
    assert problem is not None
    assert "No such file" in problem
    assert "target.name: bubblewrap" in problem


def test_an_engine_that_says_something_else_does_not_answer(tmp_path: Path) -> None:
    with engine_that_answers(tmp_path / "s", b"HTTP/1.0 503 Busy\r\n\r\n"):
        assert "503" in (silence_of(f"unix://{tmp_path}/s") or "")
    with engine_that_answers(tmp_path / "t", b"HTTP/1.0 200 OK\r\n\r\nOK"):
        assert silence_of(f"unix://{tmp_path}/t") is None


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("python", "python"),
        ("python:3.12", "python"),
        ("ghcr.io/me/x:1", "ghcr.io/me/x"),
        ("localhost:5000/x", "localhost:5000/x"),
        ("localhost:5000/x:2", "localhost:5000/x"),
    ],
)
def test_a_repository_is_an_image_without_its_tag(image: str, repository: str) -> None:
    assert _repository(image) == repository


def test_a_digest_is_that_of_the_repository_that_was_asked_for() -> None:
    found = {"Id": "sha256:id", "RepoDigests": ["other@sha256:1", "docker.io/library/x@sha256:2"]}
    assert _digest_here("x:3", found) == "docker.io/library/x@sha256:2"
    assert _digest_here("y:3", found) == "sha256:id"
    assert _digest_here("y:3", {"Id": "sha256:id", "RepoDigests": None}) == "sha256:id"


def test_old_engines_are_warned_of() -> None:
    runc = {"Name": "runc", "Version": "1.1.5+ds1"}
    old = {"Version": "20.10.24+dfsg1", "ApiVersion": "1.41", "Components": [runc]}
    assert len(engine_warnings(old)) == 2
    assert "older than 20.10" in engine_warnings({"Version": "19.3", "ApiVersion": "1.40"})[0]
    new = {"Version": "29.0.1", "ApiVersion": "1.52", "Components": [{**runc, "Version": "1.3.3"}]}
    assert engine_warnings(new) == []


def test_the_systems_image_is_the_same_every_time() -> None:
    assert system_archive() == system_archive()
    assert system_image().startswith("arl-system:")


def test_usage_only_grows() -> None:
    first, second = Usage(1.0, 5, 0, 2), Usage(0.0, 9, 1, 0)
    assert first.merge(second) == Usage(1.0, 9, 1, 2)


def test_the_groups_of_a_process_that_is_gone_say_nothing() -> None:
    assert ControlGroups(2**22 + 1).read() == Usage()


def test_a_process_of_our_own_namespace_is_no_containers_first_one() -> None:
    assert is_neighbour(os.getpid())
    assert is_neighbour(os.getppid())
    assert not is_neighbour(2**22 + 1), "of one that is not there nothing is known"


def test_in_arls_own_image_the_way_out_is_made_by_the_code_that_lies_there() -> None:
    lent = access.side_car("/attempt/egress", python="/usr/bin/python3")
    assert lent.argv[3] in lent.mounts
    own = access.side_car("/attempt/egress", python="/usr/bin/python3", is_installed=True)
    assert own.mounts == {"/arl/egress": "/attempt/egress"}, "the engine has no other path of it"
    assert Path(own.argv[3]).is_file()


class NoBox:
    """A container that is gone."""

    log = None

    def remove(self) -> None:
        pass

    def close(self) -> None:
        pass


class Busy(NoBox):
    """A container that its engine cannot delete."""

    def __init__(self, *, running: bool) -> None:
        self._running = running

    def remove(self) -> None:
        raise Refusal(500, "device or resource busy")

    def inspect(self) -> dict[str, bool]:
        return {"Running": self._running}


class Quiet:
    def on_trouble(self, what: str) -> None:
        pass


@pytest.fixture
def turns() -> Iterator[Turns]:
    made = Turns(lambda message: None)
    yield made
    made.close()


def making_of(turns: Turns) -> Making:
    around: Any = Quiet()
    return Making(around, turns, lambda: True)


def test_a_container_that_ended_and_cannot_be_deleted_yet_fails_no_attempt(turns: Turns) -> None:
    ended: Any = Busy(running=False)
    making_of(turns).remove(ended)
    running: Any = Busy(running=True)
    with pytest.raises(Refusal, match="busy"):
        making_of(turns).remove(running)


def test_a_stranger_that_has_the_number_of_a_proxy_is_left_alone(
    turns: Turns, tmp_path: Path
) -> None:
    (tmp_path / "record.jsonl").write_text("")
    record = Record(str(tmp_path))
    box: Any = NoBox()
    lost: list[str] = []
    network = Network(making_of(turns), turns, box, str(tmp_path), {})
    with subprocess.Popen(["sleep", "60"]) as stranger:
        record.facts["proxy"] = [stranger.pid, 1]
        network.resume(record, lambda: bool(lost.append("lost")))
        network.end()
        try:
            assert lost == ["lost"]
            assert stranger.poll() is None
        finally:
            stranger.kill()
    record.close()
