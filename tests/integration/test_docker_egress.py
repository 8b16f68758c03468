"""Containers that may reach the hosts of their study, and no other."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.artifacts import ArtifactStore
from ledger.errors import TargetUnavailable
from ledger.records import AttemptKind
from targets.docker_container.containment import network_name
from targets.docker_container.target import DockerTarget
from targets.egress import access
from targets.protocol import ExitCause
from tests.docker_runs import kill_keeper, record_of, wait_until_gone, wait_until_started
from tests.egress_network import RANGE, Internet, private_internet, require_egress
from tests.egress_programs import Trier
from tests.private_engine import Engine
from tests.target_runs import (
    attempt,
    end_supervisor,
    finish,
    is_alive,
    log_of,
    processes_marked,
    wait_until,
)

pytestmark = [pytest.mark.egress, pytest.mark.docker]

HOSTS = ("good.test", "good.test:80")
GET = "print(get('http://good.test/data'), flush=True)"


@pytest.fixture(scope="module")
def internet(
    docker_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Internet]:
    """After the engine, which must not be in that network."""
    require_egress()
    with private_internet(tmp_path_factory.mktemp("internet")) as made:
        yield made


@pytest.fixture
def trier(internet: Internet, docker_engine: Engine, tmp_path: Path) -> Iterator[Trier]:
    """Whose every test ends with nothing left of its attempts."""
    internet.hits.clear()
    root = tmp_path / "root"
    target = DockerTarget(
        root,
        ArtifactStore(tmp_path / "store"),
        host="here",
        options={"engine": docker_engine.host},
        open_ranges=[RANGE],
    )
    yield Trier(target, internet.certificate)  # type: ignore[arg-type]
    for found in target.list_owned("ledger-1"):
        if found.running:
            target.kill(found.handle)
            finish(target, found.handle)
        target.release(found.handle)
        wait_until_gone(docker_engine, found.handle, network_name(found.handle))
    target.close()
    end_supervisor(root)
    wait_until(lambda: processes_marked(str(root)) == [], "nothing of it is left")


def test_a_listed_host_is_reached_and_recorded_and_no_other(trier: Trier) -> None:
    code = GET + "; print(get('http://other.test/')); print(get('https://good.test/'))"
    tried = trier.run(code, *HOSTS)
    assert tried.exit.code == 0, tried.said
    assert tried.lines[0].startswith("good"), tried.said
    assert tried.lines[1].startswith("403"), tried.said
    assert tried.told() == [
        ("GET", "good.test", 80, True),
        ("GET", "other.test", 80, False),
        ("CONNECT", "good.test", 443, True),
    ]


def test_there_is_no_way_around_the_proxy(trier: Trier) -> None:
    code = (
        "import socket\n"
        "def straight(address, port):\n"
        "    try:\n"
        "        socket.create_connection((address, port), 3).close()\n"
        "    except OSError as error:\n"
        "        return type(error).__name__\n"
        "    return 'through'\n"
        "print(straight('198.51.100.7', 80), straight('127.0.0.1', 80))\n"
        "print(sorted(name for _, name in socket.if_nameindex()))"
    )
    tried = trier.run(code, *HOSTS)
    assert "through" not in tried.said
    assert tried.lines[-1] == "['lo']"
    assert tried.requests == ()


def test_an_evaluation_has_no_network_whatever_is_asked(trier: Trier) -> None:
    spec = attempt("exit 0", kind=AttemptKind.EVALUATE, egress=HOSTS)
    ended = finish(trier.target, trier.target.launch(spec))
    assert ended.exit.code == 0
    assert "proxy" not in record_of(trier.target, spec.name)  # type: ignore[arg-type]


def test_a_program_keeps_its_way_out_when_its_keeper_is_killed(
    trier: Trier, docker_engine: Engine
) -> None:
    code = f"import os, time\n{GET}\nwhile not os.path.exists(os.environ['ARL_STOP']):\n"
    code += f"    time.sleep(0.05)\n{GET}"
    handle = trier.start(code, *HOSTS)
    wait_until(lambda: "good" in log_of(trier.target, handle), "it reached the host", 30.0)
    kill_keeper(trier.target)  # type: ignore[arg-type]
    trier.target.request_stop(handle)
    ended = finish(trier.target, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert log_of(trier.target, handle).count("good") == 2


def test_a_way_out_that_its_keeper_left_half_made_is_torn_down_and_the_attempt_lost(
    trier: Trier, docker_engine: Engine
) -> None:
    handle = trier.start("time.sleep(60)", *HOSTS)
    wait_until(lambda: "proxy" in facts_of(trier, handle), "its proxy is started", 30.0)
    if "started" not in facts_of(trier, handle):
        kill_keeper(trier.target)  # type: ignore[arg-type]
    started = "started" in facts_of(trier, handle)
    pid, _ = facts_of(trier, handle)["proxy"]
    if started:  # the keeper was faster than this test
        trier.target.kill(handle)
    ended = finish(trier.target, handle)
    assert ended.exit.cause is (ExitCause.KILLED if started else ExitCause.LOST)
    wait_until(lambda: not is_alive(pid), "the proxy is gone")
    wait_until_gone(docker_engine, network_name(handle))


def facts_of(trier: Trier, handle: str) -> dict[str, Any]:
    return record_of(trier.target, handle)  # type: ignore[arg-type]


def test_a_dead_proxy_loses_the_attempt(trier: Trier, docker_engine: Engine) -> None:
    handle = trier.start("time.sleep(60)", *HOSTS)
    wait_until_started(docker_engine, handle)
    pid, _ = record_of(trier.target, handle)["proxy"]  # type: ignore[arg-type]
    os.kill(pid, signal.SIGKILL)
    ended = finish(trier.target, handle)
    assert ended.exit.cause is ExitCause.LOST
    assert "its network proxy died" in ended.exit.detail


def test_without_squid_the_launch_says_what_to_do(
    trier: Trier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "find_squid", lambda: None)
    with pytest.raises(TargetUnavailable, match="install it"):
        trier.target.launch(attempt("exit 0", egress=HOSTS))
