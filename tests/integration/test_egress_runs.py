"""An attempt with a proxy beside it runs as it would without, whatever happens to the proxy."""

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput, TargetUnavailable
from ledger.records import AttemptKind
from targets import layout
from targets.bubblewrap import BubblewrapTarget
from targets.egress import access
from targets.egress.names import Allowed, parse_ranges
from targets.egress.passage import Passage, Rules, Wires
from targets.egress.record import MAX_REQUESTS, Recorder
from targets.egress.requests import read_requests
from targets.egress.squid import Squid
from targets.protocol import ExitCause
from tests.egress_network import PUBLIC, RANGE, Internet, private_internet, require_egress
from tests.egress_programs import Trier, requests_of
from tests.target_runs import (
    end_supervisor,
    finish,
    log_of,
    processes_marked,
    require_bubblewrap,
    run,
    shell,
    supervisor_pid,
    wait_until,
)

pytestmark = [pytest.mark.egress, pytest.mark.bubblewrap]

HOSTS = ("good.test", "good.test:80")
SLEEPS = "print(get('http://good.test/before')); time.sleep(60)"


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    require_egress()
    require_bubblewrap()
    with private_internet(tmp_path_factory.mktemp("internet")) as made:
        yield made


@pytest.fixture
def trier(internet: Internet, tmp_path: Path) -> Iterator[Trier]:
    """Whose every test ends with nothing left of its attempts."""
    internet.hits.clear()
    root = tmp_path / "root"
    target = BubblewrapTarget(
        root, ArtifactStore(tmp_path / "store"), host="here", open_ranges=[RANGE]
    )
    yield Trier(target, internet.certificate)
    for found in target.list_owned("ledger-1"):
        if found.running:
            target.kill(found.handle)
            finish(target, found.handle)
        target.release(found.handle)
    target.close()
    end_supervisor(root)
    wait_until(lambda: processes_marked(str(root)) == [], "nothing of it is left")
    assert os.listdir(root / "attempts") == []
    assert shared_memory_left() == []


def shared_memory_left() -> list[str]:
    """What a squid left whose proxy is gone, of whatever test."""
    left = []
    for name in os.listdir("/dev/shm"):
        of = re.fullmatch(r"arl([0-9]+)n([0-9]+)-cf__\w+\.shm", name)
        if of is not None and str(layout.process_start(of[1])) != of[2]:
            left.append(name)
    return left


def proxy_pids(handle: str, what: str) -> list[int]:
    """Live processes of an attempt whose command line holds `what`."""
    found = []
    for pid in processes_marked(handle):
        try:
            if what.encode() in Path("/proc", str(pid), "cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15), ("kill -SEGV $$", -11)],
)
def test_the_program_ends_as_it_would_without_a_proxy(
    trier: Trier, script: str, code: int
) -> None:
    ended = run(trier.target, script, egress=HOSTS)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, code)


def test_the_program_finds_nothing_of_the_proxy_but_its_address(trier: Trier) -> None:
    script = (
        'echo "$$ $PPID $(trap)"; ls /proc/self/fd | tr "\\n" " "; env | sort | grep -ci proxy; '
        "grep -E 'SigIgn|SigBlk' /proc/self/status | tr -d '\\n'"
    )
    ended = run(trier.target, shell(script), egress=HOSTS)
    plain = run(trier.target, shell(script))
    said, without = (log_of(trier.target, e.handle).splitlines() for e in (ended, plain))
    assert said[0] == without[0]
    assert said[1].split()[:-1] == without[1].split()[:-1]
    assert (said[1].split()[-1], without[1].split()[-1]) == ("6", "0")
    assert said[2:] == without[2:]


def test_a_program_that_cannot_be_run_is_a_failed_launch(trier: Trier) -> None:
    program = shell("")
    missing = type(program)(argv=("/arl/home/nowhere",), python=program.python)
    ended = run(trier.target, missing, egress=HOSTS)
    assert ended.exit.cause is ExitCause.LAUNCH_FAILED
    assert "/arl/home/nowhere" in ended.exit.detail


def test_a_deadline_asks_the_program_to_leave_as_without_a_proxy(trier: Trier) -> None:
    script = "trap 'echo asked; exit 0' TERM; sleep 20 & wait"
    limits = {"timeout_s": 1.5, "grace_s": 5.0}
    ended = run(trier.target, script, egress=HOSTS, limits=limits)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.DEADLINE, 0)
    assert log_of(trier.target, ended.handle) == "asked\n"


def test_the_proxy_is_none_of_the_programs_memory_and_processes(trier: Trier) -> None:
    limits = {"memory_bytes": 24 * 1024**2}
    ended = run(trier.target, "sleep 1.7", egress=HOSTS, limits=limits)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert ended.exit.max_rss_bytes < 20 * 1024**2


def test_a_thousand_requests_are_all_recorded_in_order(trier: Trier, internet: Internet) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(16) as pool:
    said = list(pool.map(lambda n: get(f"http://good.test/{n}"), range(1000)))
print(said.count("good.test here"))
"""
    tried = trier.run(code, *HOSTS)
    assert tried.said == "1000\n"
    assert len(tried.requests) == 1000
    assert all(r.allowed and r.received_bytes > 100 for r in tried.requests)
    assert len(internet.hits) == 1000


def test_a_connection_left_open_at_exit_is_recorded_with_what_went_over_it(
    trier: Trier, internet: Internet
) -> None:
    with socket.socket() as silent:
        silent.bind((PUBLIC, 8080))
        silent.listen()
        code = """
wires = [say("GET http://good.test:8080/ HTTP/1.1", "Host: good.test:8080") for _ in range(3)]
wires += [say("CONNECT good.test:443 HTTP/1.1"), proxy(), say("GET http://good")]
time.sleep(0.5)
os._exit(3)
"""
        tried = trier.run(code, *HOSTS, "good.test:8080")
    assert tried.exit.code == 3
    assert len(tried.requests) == 6
    waiting = [r for r in tried.requests if r.port == 8080]
    ends = {"it was open when the attempt ended", "the program hung up"}
    assert [(r.allowed, r.detail in ends) for r in waiting] == [(True, True)] * 3
    assert all(r.sent_bytes > 0 for r in waiting)


def test_a_request_whose_name_is_still_looked_up_at_exit_is_recorded(
    trier: Trier, internet: Internet
) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 53))
        code = "wire = say('CONNECT slow.lookup.test:443 HTTP/1.1'); time.sleep(0.5)"
        tried = trier.run(code, "*.lookup.test")
    assert tried.told() == [("CONNECT", "slow.lookup.test", 443, False)]
    assert tried.requests[0].detail == "it was open when the attempt ended"


def test_a_killed_program_leaves_its_requests(trier: Trier, internet: Internet) -> None:
    handle = trier.start(SLEEPS, *HOSTS)
    wait_until(lambda: internet.hits, "it asked")
    trier.target.kill(handle)
    tried = trier.ended(handle)
    assert tried.exit.cause is ExitCause.KILLED
    assert tried.told() == [("GET", "good.test", 80, True)]
    trier.target.release(handle)
    assert processes_marked(handle) == []


def test_a_killed_squid_is_started_again(trier: Trier, internet: Internet) -> None:
    code = """
print(get("http://good.test/before"), flush=True)
while not os.path.exists(os.environ["ARL_STOP"]):
    time.sleep(0.05)
print(get("https://good.test/after"))
"""
    handle = trier.start(code, *HOSTS, limits={"grace_s": 60.0})
    wait_until(lambda: internet.hits, "it asked")
    (squid,) = proxy_pids(handle, "/squid")
    os.kill(squid, signal.SIGKILL)
    wait_until(lambda: proxy_pids(handle, "/squid") not in ([], [squid]), "another one runs")
    trier.target.request_stop(handle)
    tried = trier.ended(handle)
    assert tried.said == "good.test here\ngood.test here\n"
    assert [r.allowed for r in tried.requests] == [True, True]


def test_a_killed_proxy_is_infrastructures_fault_and_takes_its_squid_along(
    trier: Trier, internet: Internet
) -> None:
    handle = trier.start(SLEEPS, *HOSTS)
    wait_until(lambda: internet.hits, "it asked")
    (proxy,) = proxy_pids(handle, "egress.proxy")
    os.kill(proxy, signal.SIGKILL)
    tried = trier.ended(handle)
    assert tried.exit.cause is ExitCause.LOST
    assert "its network proxy died" in tried.exit.detail
    assert tried.told() == [("GET", "good.test", 80, True)]
    assert processes_marked(handle) == []


@pytest.mark.parametrize("who", ["supervisor", "subreaper", "both"])
def test_nothing_is_left_when_what_watches_an_attempt_is_killed(
    trier: Trier, internet: Internet, who: str
) -> None:
    handle = trier.start(SLEEPS, *HOSTS)
    wait_until(lambda: internet.hits, "it asked")
    facts = layout.read_record(f"{trier.target._root}/{layout.ATTEMPTS}/{handle}") or {}
    victims = {"subreaper": [facts["subreaper"][0]], "supervisor": [supervisor_pid(trier.target)]}
    for pid in victims.get(who, [*victims["subreaper"], *victims["supervisor"]]):
        os.kill(pid, signal.SIGKILL)
    tried = trier.ended(handle)
    assert tried.exit.cause is ExitCause.LOST
    wait_until(lambda: processes_marked(handle) == [], "nothing of it is left")
    assert tried.told() == [("GET", "good.test", 80, True)]


def test_without_squid_a_launch_says_what_to_install(trier: Trier) -> None:
    squid = access.find_squid()
    assert squid is not None
    subprocess.run(["mount", "--bind", "/dev/null", squid], check=True)
    try:
        assert "apt-get install squid" in (access.find_problem() or "")
        with pytest.raises(TargetUnavailable, match="apt-get install squid-openssl"):
            trier.start("print()", *HOSTS)
        assert trier.run("print('fine')").said == "fine\n"
    finally:
        subprocess.run(["umount", squid], check=True)


def test_what_is_no_host_is_refused_at_launch(trier: Trier) -> None:
    with pytest.raises(InvalidInput, match=r"egress\[1\] 'http://x'"):
        trier.start("print()", "good.test", "http://x")


def test_an_old_cursor_is_still_read(trier: Trier) -> None:
    tried = trier.run("print(get('http://good.test/'))", *HOSTS)
    seen = trier.target.observe(tried.handle, cursor="0")
    assert seen.requests == tried.requests
    again = trier.target.observe(tried.handle, cursor=seen.cursor)
    assert again.requests == ()
    assert again.cursor == seen.cursor


def test_an_attempt_without_hosts_has_no_proxy(trier: Trier) -> None:
    handle = trier.start("time.sleep(30)", kind=AttemptKind.PREPARE)
    assert proxy_pids(handle, "squid") == proxy_pids(handle, "egress") == []
    trier.target.kill(handle)
    assert finish(trier.target, handle).exit.cause is ExitCause.KILLED
    assert requests_of(trier.target, handle) == ()


# --- one connection, in this process ------------------------------------------------------------


def serve(tmp_path: Path, *, say_s: float) -> tuple[socket.socket, threading.Thread, Path]:
    """The program's end of a connection to a passage that is in a hurry."""
    ours, theirs = socket.socketpair()
    rules = Rules(Allowed(HOSTS), parse_ranges([RANGE]), say_s)
    squid = Squid(str(tmp_path), "/none", ports=[80], open_ranges=[])
    passage = Passage(theirs, rules, squid, Recorder(str(tmp_path)), Wires())
    thread = threading.Thread(target=passage.run)
    thread.start()
    return ours, thread, tmp_path


def test_who_drips_its_request_is_refused_in_time(tmp_path: Path) -> None:
    ours, thread, directory = serve(tmp_path, say_s=0.5)
    started = time.monotonic()
    with ours:
        for byte in b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n" * 4:
            try:
                ours.sendall(bytes([byte]))
            except OSError:
                break
            time.sleep(0.02)
    thread.join(10)
    assert time.monotonic() - started < 3
    (request,) = read_requests(str(directory), "", ended=True).requests
    assert (request.allowed, request.detail) == (
        False,
        "nothing that can be judged within 0.5 s",
    )


def test_a_flood_is_counted_past_what_is_written_down(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    numbers = [recorder.take_number() for _ in range(MAX_REQUESTS + 1234)]
    assert numbers[:3] == [1, 2, 3]
    assert numbers[MAX_REQUESTS:] == [None] * 1234
    assert recorder.is_flooded, "so nothing is listened to any more"
    recorder.close()
    (request,) = read_requests(str(tmp_path), "", ended=True).requests
    assert request.detail == f"1234 more were refused: one attempt may make {MAX_REQUESTS}"
    assert not request.allowed
