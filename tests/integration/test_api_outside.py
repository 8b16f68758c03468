"""Outside workers: trials asked for, reported on and told of over HTTP."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ledger import reads
from tests.acceptance.shell_study import document, open_service
from tests.api_runs import client_of, service_of
from tests.api_studies import remote_document, send_tree, wait_for, working

OUTSIDE = {"target": {"name": "outside"}, "parallel": 4}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    service = open_service(tmp_path, ARL_API_ALLOW_LOCAL="1")
    with client_of(service) as made:
        yield made
    service.close()


def reported(**changes: Any) -> dict[str, Any]:
    """A study whose outside workers are believed."""
    made = document(**OUTSIDE, **changes)
    made["evaluator"] = {"mode": "reported", "metrics": {"score": {}}}
    return made


def submit(client: TestClient, study: dict[str, Any]) -> str:
    answer = client.post("/api/v1/studies", json={"study": study})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["study"])


def ask(client: TestClient, study: str, name: str) -> dict[str, Any]:
    """Ask until a trial is ready."""
    for _ in range(200):
        answer = client.post(f"/api/v1/studies/{study}/ask", json={"client": name})
        if answer.status_code != 202:
            assert answer.status_code == 200, answer.text
            return dict(answer.json())
        assert answer.headers["retry-after"]
        threading.Event().wait(0.05)
    raise AssertionError("no trial became ready")


def about(client: TestClient, handed: dict[str, Any], what: str, body: Any) -> Any:
    headers = {"Trial-Token": handed["token"]}
    return client.post(f"/api/v1/trials/{handed['trial']}/{what}", json=body, headers=headers)


def serve_trials(client: TestClient, study: str, name: str) -> int:
    """An outside worker until the study ends; how many trials it told of."""
    told = 0
    while True:
        answer = client.post(f"/api/v1/studies/{study}/ask", json={"client": name})
        if answer.status_code == 409:
            return told
        if answer.status_code == 202:
            threading.Event().wait(0.02)
            continue
        handed = answer.json()
        x = handed["params"]["x"]
        done = about(client, handed, "tell", {"outcome": "complete", "metrics": {"score": x}})
        assert done.status_code == 200, done.text
        told += 1


def test_outside_workers_run_a_whole_study(client: TestClient) -> None:
    study = submit(client, reported(budget={"trials": 12}))
    counts: list[int] = []
    with working(client):
        threads = [
            threading.Thread(
                target=lambda name=name: counts.append(serve_trials(client, study, name))
            )
            for name in ("one", "two", "three")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        wait_for(client, study, "completed")
    assert sum(counts) == 14  # two of the baseline
    with service_of(client).ledger.read() as session:
        found = reads.get_study(session, study)
        best = reads.best_trial(session, found)
        page = reads.list_trials(session, study)
    assert best is not None
    assert best.value == max(item.trial.value or 0 for item in page.items)
    assert all(item.trial.state == "complete" for item in page.items)


def test_a_client_gets_its_trial_back_and_its_old_token_opens_nothing(
    client: TestClient,
) -> None:
    study = submit(client, reported())
    with working(client):
        first, other = ask(client, study, "one"), ask(client, study, "two")
        again = ask(client, study, "one")
        assert again["trial"] == first["trial"] != other["trial"]
        stale = about(client, first, "values", {"values": []})
        assert (stale.status_code, stale.json()["code"]) == (409, "stale_fence")
        stolen = {**other, "trial": first["trial"]}
        assert about(client, stolen, "tell", {"outcome": "complete"}).status_code == 409
        value = {"step": 1, "metric": "loss", "value": 0.5}
        assert about(client, again, "values", {"values": [value]}).json() == {"should_stop": False}
        told = {"outcome": "complete", "metrics": {"score": 0.5}}
        assert about(client, again, "tell", told).json()["repeated"] is False
        assert about(client, again, "tell", told).json()["repeated"] is True
        wait_until_complete(client, again["trial"])  # and its attempt is released
        assert about(client, again, "tell", told).json()["repeated"] is True
        client.post(f"/api/v1/studies/{study}/cancel", params={"wait": 10})
        wait_for(client, study, "cancelled")
        assert about(client, other, "values", {}).status_code == 409
        ended = client.post(f"/api/v1/studies/{study}/ask", json={"client": "one"})
        assert ended.status_code == 409


def wait_until_complete(client: TestClient, trial: str) -> None:
    service = service_of(client)
    left = Path(service.settings.home) / "outside" / "records"
    for _ in range(400):
        if not any(name.name.startswith(f"arl-{trial}.") for name in left.iterdir()):
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"the attempts of {trial} are not released")


def test_a_report_that_is_sent_again_counts_once(client: TestClient) -> None:
    study = submit(client, reported())
    with working(client):
        handed = ask(client, study, "one")
        for number, value in ((7, 0.5), (7, 0.5), (8, 0.25), (7, 0.5)):
            values = [{"step": number, "metric": "loss", "value": value}]
            body = {"number": number, "values": values}
            assert about(client, handed, "values", body).status_code == 200
        about(client, handed, "tell", {"outcome": "complete", "metrics": {"score": 0.5}})
        wait_until_complete(client, handed["trial"])
    found = client.get(f"/api/v1/trials/{handed['trial']}/values", params={"metric": "loss"})
    assert found.json()["curves"][0]["values"] == [0.5, 0.25]


def test_a_paused_study_hands_out_nothing_new(client: TestClient) -> None:
    study = submit(client, reported())
    with working(client):
        handed = ask(client, study, "one")
        client.post(f"/api/v1/studies/{study}/pause", params={"wait": 10})
        assert ask(client, study, "one")["trial"] == handed["trial"]
        other = client.post(f"/api/v1/studies/{study}/ask", json={"client": "two"})
        assert other.status_code == 202


@pytest.mark.parametrize("trial", ["%00", "a" * 300, "..", "none"])
def test_a_trial_that_is_none_is_nobodys(client: TestClient, trial: str) -> None:
    told = client.post(
        f"/api/v1/trials/{trial}/tell",
        json={"outcome": "complete"},
        headers={"Trial-Token": "arlt_x"},
    )
    assert told.status_code in (404, 405, 409, 422), told.text


def test_an_end_that_came_too_late_is_not_called_repeated(client: TestClient) -> None:
    study = submit(client, {**reported(), "resources": {"cpus": 0.1, "wall_time": "1s"}})
    with working(client):
        handed = ask(client, study, "one")
        threading.Event().wait(1.2)
        told = {"outcome": "complete", "metrics": {"score": 1.0}}
        late = about(client, handed, "tell", told)
        assert (late.status_code, late.json()["code"]) == (409, "stale_fence")


def test_what_an_outside_worker_sends_is_scored_by_the_frozen_evaluator(
    client: TestClient, tmp_path: Path
) -> None:
    spec = remote_document(client, tmp_path / "sender", **OUTSIDE, budget={"trials": 2})
    spec["evaluator"]["target"] = "local"
    study = submit(client, spec)
    with working(client):
        for number in range(4):
            handed = ask(client, study, "one")
            made = tmp_path / f"made-{number}"
            made.mkdir()
            (made / "params.json").write_text('{"x": 0.75}', encoding="utf-8")
            tree = send_tree(client, made)
            lie = {"outcome": "complete", "artifact": tree, "metrics": {"score": 1.0}}
            assert about(client, handed, "tell", lie).status_code == 200
        wait_for(client, study, "completed")
    with service_of(client).ledger.read() as session:
        page = reads.list_trials(session, study)
    assert [item.trial.value for item in page.items] == [0.75] * 4


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"outcome": "complete", "artifact": "0" * 64}, 422),
        ({"outcome": "complete", "artifact": "../x"}, 422),
        ({"outcome": "won"}, 422),
        ({"outcome": "failed", "exit_code": 0}, 422),
        ({"outcome": "complete", "metrics": {"score": "high"}}, 422),
        ({"outcome": "complete", "metrics": {"sco\nre": 1.0}}, 422),
        ({}, 422),
    ],
)
def test_a_wrong_answer_leaves_the_trial_as_it_was(
    client: TestClient, body: dict[str, Any], status: int
) -> None:
    study = submit(client, reported())
    with working(client):
        handed = ask(client, study, "one")
        assert about(client, handed, "tell", body).status_code == status
        assert about(client, handed, "values", {}).status_code == 200
        unread = {"values": [{"step": 1, "metric": "lo\u2028ss", "value": 1.0}]}
        assert about(client, handed, "values", unread).status_code == 422


def test_a_study_that_runs_elsewhere_hands_out_nothing(client: TestClient, tmp_path: Path) -> None:
    study = submit(client, remote_document(client, tmp_path / "sender"))
    refused = client.post(f"/api/v1/studies/{study}/ask", json={"client": "one"})
    assert refused.status_code == 409
    assert "target.name: outside" in refused.json()["detail"]
