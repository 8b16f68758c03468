"""Whole studies whose training reaches a host: what it asked for is in the ledger, once."""

import json
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.documents.studies import study_document
from controller.steps import attempt_specs, requests
from controller.steps.requests import record_last_requests
from controller.worker.loop import Callbacks
from ledger import reads, writes
from ledger.database import open_ledger
from ledger.errors import InvalidInput
from ledger.network_reads import read_requests
from ledger.records import CommandVerb, Study
from ledger.states import StudyState
from targets.egress import access
from targets.protocol import AttemptSpec, Program
from tests.acceptance import promises, shell_study
from tests.cli_runs import Arl, arl_in
from tests.egress_network import PUBLIC, RANGE, Internet, private_internet, require_egress
from tests.egress_programs import PRELUDE
from tests.target_runs import end_supervisor, processes_marked, require_bubblewrap, wait_until

pytestmark = [pytest.mark.egress, pytest.mark.bubblewrap]

OPENED = {"ARL_EGRESS_ALLOW_RANGES": RANGE}
TARGET = {"target": {"name": "bubblewrap", "egress": ["good.test", "good.test:80"]}}

TRAIN = (
    PRELUDE
    + """
import json
document = json.load(open(os.environ["ARL_PARAMS"]))
for number in range(8):
    said = get(f"http://good.test/{os.environ['ARL_ATTEMPT']}/{number}")
    print(said, flush=True)
    time.sleep(0.05)
print(get("https://good.test/" + os.environ["ARL_ATTEMPT"] + "/tls"))
print(get("http://other.test/"))
os.mkdir(os.environ["ARL_OUTPUT"] + "/model")
with open(os.environ["ARL_OUTPUT"] + "/model/x", "w") as file:
    file.write(str(document["parameters"]["x"]))
"""
)
ASKED = 10
"""Requests of one training attempt that is not disturbed."""
REFUSED = 1

EVALUATE = """
import json, os, socket, urllib.request
score = float(open(os.environ["ARL_INPUTS"] + "/artifact/x").read()) / 2
proxies = [name for name in os.environ if "proxy" in name.lower()]
for reach in (
    lambda: socket.create_connection(("198.51.100.7", 80), 2),
    lambda: socket.create_connection(("127.0.0.1", 3128), 2),
    lambda: urllib.request.urlopen("http://good.test/evaluator", timeout=2),
):
    try:
        reach()
        score = 1.0
    except OSError:
        pass
if proxies:
    score = 1.0
os.write(int(os.environ["ARL_SCORE_FD"]), json.dumps({"metrics": {"score": score}}).encode())
"""


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    require_egress()
    require_bubblewrap()
    with private_internet(tmp_path_factory.mktemp("internet")) as made:
        yield made


@pytest.fixture
def arl(internet: Internet, tmp_path: Path) -> Iterator[Arl]:
    internet.hits.clear()
    with arl_in(tmp_path) as arl:
        yield arl
        end_supervisor(arl.home / "bubblewrap")
        wait_until(lambda: processes_marked(str(arl.home)) == [], "nothing of it is left")


def study_file(arl: Arl, internet: Internet, **sections: Any) -> str:
    source, bundle = arl.place / "program", arl.place / "bundle"
    for directory, name, text in ((source, "train.py", TRAIN), (bundle, "score.py", EVALUATE)):
        directory.mkdir()
        (directory / name).write_text(text)
    return arl.study(
        program={
            "kind": "command",
            "argv": ["{python}", "-I", "-S", "train.py"],
            "source": "program",
            "environment": {"CA": internet.certificate},
        },
        evaluator={
            "bundle": "bundle",
            "argv": ["{python}", "-I", "-S", "{bundle}/score.py"],
            "metrics": {"score": {"low": 0, "high": 1}},
        },
        budget={"trials": 1},
        **{**TARGET, **sections},
    )


def recorded(arl: Arl) -> tuple[Study, dict[str, list[dict[str, Any]]]]:
    """The only study, and what the ledger has of each attempt."""
    ledger = open_ledger(arl.home / "ledger.db", create=False)
    found: dict[str, list[dict[str, Any]]] = {}
    with ledger.read() as session:
        study = reads.list_studies(session)[0].study
        for batch in read_requests(session, study):
            found.setdefault(batch.attempt_id, []).extend(dict(r) for r in batch.requests)
    ledger.close()
    return study, found


def asked_by_attempt(internet: Internet) -> Counter[str]:
    """What the hosts themselves saw of each attempt."""
    names = (re.search(r"/arl-([^/ ]+)/", hit) for hit in internet.hits)
    return Counter(name[1] for name in names if name is not None)


def test_a_study_that_reaches_a_host_tells_every_request(arl: Arl, internet: Internet) -> None:
    arl.ok("run", study_file(arl, internet), **OPENED)
    study, found = recorded(arl)
    assert study.state is StudyState.COMPLETED
    assert len(found) == 3, "two baselines and a trial; no evaluation asked for anything"
    assert [hit for hit in internet.hits if "evaluator" in hit or "other" in hit] == []
    for requests_made in found.values():
        assert len(requests_made) == ASKED
        assert [r["allowed"] for r in requests_made] == [True] * 9 + [False]
    document = arl.show()
    assert document["best"]["value"] <= 0.5, "no evaluation reached anything"
    network = document["network"]
    assert (network["count"], network["refused"]) == (3 * ASKED, 3 * REFUSED)
    assert network["hosts"]["other.test:80"]["refused"] == 3
    assert network["requests"] == [], "preparing asked for nothing"
    best = arl.show(document["best"]["trial"])
    assert len(best["network"]["requests"]) == ASKED
    assert best["network"]["hosts"]["good.test:80"]["count"] == 8
    said = arl.ok("show", document["best"]["trial"]).out
    assert "network: 10 requests, 1 of them refused" in said
    assert "target.egress does not list other.test:80" in said
    arl.ok("verify")


def test_a_controller_killed_again_and_again_records_each_request_once(
    arl: Arl, internet: Internet
) -> None:
    file = study_file(arl, internet)
    arguments: tuple[str, ...] = ("run", file)
    for hits in (2, 9, 14):
        process = arl.start(*arguments, **OPENED)
        until = time.monotonic() + 60
        while len(internet.hits) < hits and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        arguments = ("resume",)
    arl.ok("resume", **OPENED)
    study, found = recorded(arl)
    assert study.state is StudyState.COMPLETED
    seen = asked_by_attempt(internet)
    assert sum(seen.values()) >= 3 * (ASKED - REFUSED)
    assert {name: len([r for r in made if r["allowed"]]) for name, made in found.items()} == seen
    arl.ok("verify")
    assert arl.show()["network"]["count"] == sum(len(made) for made in found.values())


def test_what_was_open_when_a_study_was_cancelled_is_recorded(
    internet: Internet, tmp_path: Path
) -> None:
    internet.hits.clear()
    hold = PRELUDE + (
        "get('http://good.test/before')\n"
        "wire = say('CONNECT good.test:443 HTTP/1.1')\nprint(first(wire))\n"
        "context = ssl.create_default_context(cadata=os.environ['CA'])\n"
        "inside = context.wrap_socket(wire, server_hostname='good.test')\n"
        "get('http://good.test/held')\ntime.sleep(60)\n"
    )
    service = shell_study.open_service(tmp_path, **OPENED)
    study_id = shell_study.submit(
        service,
        tmp_path,
        program={
            "kind": "command",
            "argv": ["{python}", "-I", "-S", "-c", hold],
            "environment": {"CA": internet.certificate},
        },
        **TARGET,
    )
    asked = False

    def cancel_when_held(driver: Any) -> None:
        nonlocal asked
        held = [hit for hit in internet.hits if "/held" in hit]
        if len(held) == len(driver.view.live) > 0 and not asked:
            asked = True
            with service.ledger.write() as session:
                writes.insert_command(session, study_id, CommandVerb.CANCEL, {}, "operator")

    study = shell_study.drive(service, study_id, Callbacks(on_tick=cancel_when_held))
    assert study.state is StudyState.CANCELLED
    with service.ledger.read() as session:
        batches = list(read_requests(session, study))
    made = [r for batch in batches for r in batch.requests]
    tunnels = [r for r in made if r["method"] == "CONNECT"]
    assert tunnels != []
    assert all(r["allowed"] and int(str(r["received"])) > 0 for r in tunnels)
    assert len([r for r in made if r["method"] == "GET"]) == 2 * len(tunnels)
    assert list(promises.chain_broken(shell_study.witness(service))) == []
    service.close()
    end_supervisor(tmp_path / ".arl" / "bubblewrap")


def test_preparing_reaches_the_hosts_too_and_is_recorded_as_the_studys_own(
    internet: Internet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ARL's own prepare program asks for nothing, so another one stands in for it."""
    made_spec = attempt_specs.prepare_spec
    code = PRELUDE + (
        "print(get('https://good.test/base'), get('http://other.test/'))\n"
        'os.write(3, b\'{"ok": true, "rows": {}, "contamination": {}}\')\n'
    )

    def prepares(*arguments: Any) -> AttemptSpec:
        spec = made_spec(*arguments)
        program = Program(
            argv=("{python}", "-I", "-S", "-c", code),
            python=spec.program.python,
            environment={"CA": internet.certificate},
        )
        return replace(spec, program=program)

    monkeypatch.setattr(attempt_specs, "prepare_spec", prepares)
    (tmp_path / "data.jsonl").write_text('{"text": "a"}\n')
    service = shell_study.open_service(tmp_path, **OPENED)
    train = {
        "kind": "command",
        "argv": ["/bin/sh", "-c", shell_study.TRAIN],
        "data": {"rows": "data.jsonl"},
    }
    study_id = shell_study.submit(service, tmp_path, program=train, budget={"trials": 1}, **TARGET)
    study = shell_study.drive(service, study_id)
    assert study.state is StudyState.COMPLETED
    with service.ledger.read() as session:
        batches = list(read_requests(session, study))
        document = json.loads(json.dumps(study_document(session, study)))
    assert [(b.trial_id, b.count, b.refused) for b in batches] == [(None, 2, 1)]
    assert [r["host"] for r in document["network"]["requests"]] == ["good.test", "other.test"]
    assert list(promises.chain_broken(shell_study.witness(service))) == []
    service.close()
    end_supervisor(tmp_path / ".arl" / "bubblewrap")


def test_a_flood_of_requests_is_recorded_as_its_beginning_and_a_count(
    internet: Internet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "KEPT", 50)
    code = PRELUDE + (
        "for _ in range(130): get('http://other.test/')\n"
        "os.mkdir(os.environ['ARL_OUTPUT'] + '/model')\n"
        "import shutil; shutil.copy(os.environ['ARL_PARAMS'], "
        "os.environ['ARL_OUTPUT'] + '/model/params.json')\n"
    )
    service = shell_study.open_service(tmp_path, **OPENED)
    program = {
        "kind": "command",
        "argv": ["{python}", "-I", "-S", "-c", code],
        "environment": {"CA": internet.certificate},
    }
    study_id = shell_study.submit(
        service, tmp_path, program=program, budget={"trials": 1}, **TARGET
    )
    study = shell_study.drive(service, study_id)
    assert study.state is StudyState.COMPLETED
    with service.ledger.read() as session:
        batches = list(read_requests(session, study))
    by_attempt: dict[str, list[tuple[int, int]]] = {}
    for batch in batches:
        by_attempt.setdefault(batch.attempt_id, []).append((batch.count, len(batch.requests)))
    assert len(by_attempt) == 3
    for counts in by_attempt.values():
        assert sum(count for count, _ in counts) == 130
        assert sum(kept for _, kept in counts) == 50
        assert counts[-1] == (80, 0)
    assert list(promises.chain_broken(shell_study.witness(service))) == []
    service.close()
    end_supervisor(tmp_path / ".arl" / "bubblewrap")


def test_a_study_with_hosts_waits_for_squid_and_says_what_to_install(
    internet: Internet, tmp_path: Path
) -> None:
    squid = access.find_squid()
    assert squid is not None
    service = shell_study.open_service(tmp_path, **OPENED)
    study_id = shell_study.submit(service, tmp_path, budget={"trials": 1}, **TARGET)
    subprocess.run(["mount", "--bind", "/dev/null", squid], check=True)
    told = ""

    def install_when_paused(driver: Any) -> None:
        nonlocal told
        if driver.condition is not None and not told:
            told = driver.view.study.detail
            subprocess.run(["umount", squid], check=True)

    study = shell_study.drive(service, study_id, Callbacks(on_tick=install_when_paused))
    assert "apt-get install squid-openssl" in told
    assert study.state is StudyState.COMPLETED
    service.close()
    end_supervisor(tmp_path / ".arl" / "bubblewrap")


def test_a_study_with_hosts_is_refused_where_auto_finds_no_sandbox(
    internet: Internet, tmp_path: Path
) -> None:
    service = shell_study.open_service(tmp_path)  # whose operator set ARL_TARGET=local
    with pytest.raises(InvalidInput, match="target local, which keeps no program from any host"):
        shell_study.submit(service, tmp_path, target={"egress": [f"{PUBLIC}:80"]})
    service.close()


def test_a_worker_whose_lease_is_over_ends_nothing_before_its_commit(
    internet: Internet, tmp_path: Path
) -> None:
    service = shell_study.open_service(tmp_path, **OPENED)
    study_id = shell_study.submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["/bin/sh", "-c", "sleep 60"]},
        **TARGET,
    )
    still_runs: list[bool] = []

    def wake_late_then_cancel(driver: Any) -> None:
        ctx = driver.snapshot()
        running = [a for a in driver.view.attempts() if a.state == "running" and a.kind == "train"]
        if not running or still_runs:
            return
        lease_until, ctx.lease_until = ctx.lease_until, 0.0
        record_last_requests(ctx, running[0])
        ctx.lease_until = lease_until
        seen = ctx.target_of(running[0]).observe(running[0].handle, cursor="")
        still_runs.append(seen.exit is None)
        with service.ledger.write() as session:
            writes.insert_command(session, study_id, CommandVerb.CANCEL, {}, "operator")

    study = shell_study.drive(service, study_id, Callbacks(on_tick=wake_late_then_cancel))
    assert study.state is StudyState.CANCELLED
    assert still_runs == [True]
    service.close()
