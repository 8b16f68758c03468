"""The Python client against a server in a process of its own."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.client import Client
from controller.client.connection import ServerUnavailable, Unauthorized
from controller.client.scalars import plain_number
from ledger.errors import Conflict, InvalidInput, NotFound
from tests.acceptance.shell_study import document, write_evaluator
from tests.serve_runs import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / ".arl") as made:
        yield made


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made


def study_file(directory: Path, **changes: Any) -> Path:
    """The shell study as a file, with its evaluator beside it."""
    write_evaluator(directory)
    file = directory / "study.json"
    file.write_text(json.dumps(document(**changes)), encoding="utf-8")
    return file


def test_a_study_file_is_sent_run_and_read_back(client: Client, tmp_path: Path) -> None:
    made = client.submit(study_file(tmp_path, name="sent"))
    found = client.wait(made.study, timeout_s=120, every_s=0.1)
    assert (str(found.state), found.name) == ("completed", "sent")
    trials = list(client.trials(made.study, sort="value", order="desc"))
    assert len(trials) == 6
    best = client.trial(trials[0].id)
    assert best.value == trials[0].value
    assert client.trial(f"{made.study}/{best.number}").id == best.id
    assert client.candidate(best.candidate).candidate == best.candidate
    assert client.lineage(best.candidate).nodes
    assert made.study in [study.study for study in client.studies(text="sent")]
    with pytest.raises(Conflict, match="completed"):
        client.pause(made.study)


def test_events_are_followed_to_the_end_of_the_study(client: Client, tmp_path: Path) -> None:
    made = client.submit(study_file(tmp_path, name="followed"))
    seen = [(event.seq, event.kind) for event in client.events(made.study)]
    assert [seq for seq, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[0][1] == "study_submitted"
    assert client.study(made.study).head.seq == len(seen)


def test_a_follower_loses_and_repeats_nothing_when_the_server_is_killed(tmp_path: Path) -> None:
    slow = "sleep 0.1; " + document()["program"]["argv"][2]
    program = {"kind": "command", "argv": ["/bin/sh", "-c", slow]}
    with served(tmp_path / ".arl") as server, Client(server.url) as client:
        file = study_file(tmp_path, program=program, budget={"trials": 15})
        made = client.submit(file)
        seen: list[int] = []
        follower = threading.Thread(
            target=lambda: seen.extend(event.seq for event in client.events(made.study))
        )
        follower.start()
        for _ in range(2):
            threading.Event().wait(0.5)
            server.kill()
            server.start()
        follower.join(120)
        assert not follower.is_alive()
        found = client.study(made.study)
        assert seen == list(range(1, found.head.seq + 1))
        assert str(found.state) == "completed"
        workers = server.workers()
    assert len(workers) == 1, "the killed servers' workers are still there"


def test_refusals_are_the_errors_of_an_embedded_arl(client: Client, tmp_path: Path) -> None:
    for lookup in (client.study, client.trial, client.candidate, client.lineage, client.promotion):
        with pytest.raises(NotFound):
            lookup("none")
    with pytest.raises(InvalidInput, match="space"):
        client.submit(document(space={"x": {"type": "float", "low": 2.0, "high": 1.0}}))
    with pytest.raises(NotFound):
        client.extend("none", {"trials": {"by": 1}})
    with pytest.raises(InvalidInput, match="by and to"):
        client.extend("none", {"trials": {}})


def test_a_server_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.client.connection.FIRST_PAUSE_S", 0.01)
    with Client("127.0.0.1:9") as client, pytest.raises(ServerUnavailable, match="arl serve"):
        client.study("any")
    monkeypatch.delenv("ARL_SERVER", raising=False)
    with pytest.raises(InvalidInput, match="ARL_SERVER"):
        Client()
    for wrong in ("ftp://x", "http://user:secret@host", "http://"):
        with pytest.raises(InvalidInput, match="http://HOST"):
            Client(wrong)


def test_a_wrong_token_is_said(server: Served) -> None:
    with Client(server.url, "arl_wrong") as client, pytest.raises(Unauthorized, match="ARL_TOKEN"):
        client.study("any")


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (1, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.array([2.0]), 2.0),
        (np.float64("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_scalars_of_libraries_are_metric_values(given: Any, plain: float | str) -> None:
    assert plain_number("loss", given) == plain


@pytest.mark.parametrize("given", ["0.5", True, None, [1, 2], np.array([1.0, 2.0]), {}])
def test_what_is_no_number_is_no_metric_value(given: Any) -> None:
    with pytest.raises(InvalidInput, match="loss"):
        plain_number("loss", given)


def test_names_of_inputs_are_what_they_are_and_no_part_of_an_address(
    client: Client, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a", "a#b", "a?b", "100%.txt", "%61", "ü b"):
        (data / name).write_text(name, encoding="utf-8")
    program = {**document()["program"], "data": {"data": str(data)}}
    made = client.submit(
        document(
            name="fetching",
            program=program,
            target={"name": "outside"},
            evaluator={"mode": "reported", "metrics": {"score": {}}},
            budget={"trials": 1},
        )
    )
    trial = None
    while trial is None:
        trial = client.ask(made.study, "worker-1")
        threading.Event().wait(0.05)
    trial.fetch("data", tmp_path / "got")
    client.cancel(made.study)
    got = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "got").iterdir()}
    assert got == {path.name: path.name for path in data.iterdir()}


def test_an_outside_worker_reports_and_tells(client: Client, tmp_path: Path) -> None:
    made = client.submit(
        document(
            name="outside",
            target={"name": "outside"},
            evaluator={"mode": "reported", "metrics": {"score": {}}},
            budget={"trials": 3},
        )
    )
    told = 0
    while str(client.study(made.study).state) not in ("completed", "failed"):
        try:
            trial = client.ask(made.study, "worker-1")
        except Conflict:
            break
        if trial is None:
            threading.Event().wait(0.05)
            continue
        assert not trial.report(1, {"loss": np.float32(0.25)}, log="one line\n")
        trial.tell({"score": np.float64(trial.params["x"])})
        trial.tell({"score": 0.0})
        told += 1
    assert told == 5
    assert str(client.wait(made.study, timeout_s=60).state) == "completed"
    (first, *_) = client.trials(made.study)
    assert client.values(first.id, metric="loss").curves[0].values == [0.25]
