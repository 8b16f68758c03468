"""Webhooks over the API: what a sender may name, what is listed, and sending one again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from controller.api.remote_rules import check_addresses
from controller.settings import Settings, read_settings
from controller.spec.loading import parse_study
from controller.worker.noticing import Noticing
from ledger import writes
from ledger.notification_records import NotificationState, Tried
from ledger.notifications import page_of_notifications
from ledger.verify import verify_ledger
from targets.outbound_addresses import AddressRefused
from tests.acceptance.shell_study import document, open_service
from tests.api_runs import client_of, service_of, token
from tests.api_studies import remote_document, wait_for, working
from tests.webhook_receiver import receiving
from tests.webhook_studies import fails, told_study

BASE = "/api/v1"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    service = open_service(tmp_path, ARL_API_ALLOW_LOCAL="1", ARL_NOTIFY_ALLOW_PRIVATE="0")
    with client_of(service) as made:
        yield made
    service.close()


def dead_letters(client: TestClient, *studies: str) -> list[str]:
    """Ids of what these studies could not tell."""
    service = service_of(client)
    for name in studies:
        fails(told_study(service.ledger, name, {"webhook": "https://example.org/hook"}))
    Noticing(service.ledger, service.settings).look()
    with service.ledger.write() as session:
        ids = [one.id for one in page_of_notifications(session).items]
        for name in ids:
            writes.claim_notification(session, name, "w", 60.0, gone=None)
            given_up = Tried(state=NotificationState.DEAD, status=500, detail="no")
            assert writes.settle_notification(session, name, "w", given_up)
    return ids


# --- sending a study -----------------------------------------------------------------------------


PRIVATE = (
    "https://127.0.0.1/x",
    "https://[::1]/x",
    "https://10.0.0.7:8443/x",
    "https://169.254.169.254/latest/meta-data",
    "https://localhost/x",
    "https://[::ffff:127.0.0.1]/x",
    "https://0/x",
    "https://2130706433/x",
    "https://[64:ff9b::a00:1]/x",
)
PLAIN = "http://8.8.8.8/x"


def test_a_sender_reaches_no_private_host_and_none_without_tls(
    client: TestClient, tmp_path: Path
) -> None:
    study = remote_document(client, tmp_path / "sender")
    for url in (*PRIVATE, PLAIN):
        told = {"study": {**study, "notify": [{"webhook": url}]}}
        refused = client.post(f"{BASE}/studies", json=told)
        assert (refused.status_code, refused.json()["code"]) == (422, "address_refused"), url
        assert refused.json()["detail"].startswith("notify[0].webhook: host "), url
        assert "ARL_NOTIFY_ALLOW_PRIVATE" in refused.json()["detail"], url
    assert client.get(f"{BASE}/studies").json()["items"] == []


def test_the_operator_says_which_private_hosts_may_be_told() -> None:
    spec = parse_study(document(notify=[{"webhook": "http://10.1.2.3/x"}]))

    def settings(allowed: str) -> Settings:
        return read_settings({"ARL_NOTIFY_ALLOW_PRIVATE": allowed})

    for allowed in ("1", "10.1.0.0/16", "10.1.2.3"):
        check_addresses(spec, settings(allowed))
    for refused in ("0", "10.2.0.0/16", "localhost"):
        with pytest.raises(AddressRefused, match=r"notify\[0\]\.webhook"):
            check_addresses(spec, settings(refused))


def test_a_senders_webhook_gets_nothing_signed_with_the_operators_key(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARL_SECRET_HOOKS", "c4n4ry")
    told = {"webhook": "https://thief.example/x", "secret": "ARL_SECRET_HOOKS"}
    study = remote_document(client, tmp_path / "sender", notify=[told])
    refused = client.post(f"{BASE}/studies", json={"study": study})
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["field"] == "notify[0].secret"
    assert "ARL_API_SECRETS=ARL_SECRET_HOOKS@thief.example" in refused.json()["detail"]
    assert "c4n4ry" not in refused.text


def test_a_study_that_was_sent_tells_whom_the_operator_lets_it_tell(tmp_path: Path) -> None:
    with receiving() as receiver:
        service = open_service(
            tmp_path, ARL_API_ALLOW_LOCAL="1", ARL_NOTIFY_ALLOW_PRIVATE="127.0.0.1"
        )
        with client_of(service) as client:
            told = {"webhook": receiver.url, "on": ["study_completed"]}
            study = remote_document(
                client, tmp_path / "sender", notify=[told], budget={"trials": 1}
            )
            made = client.post(f"{BASE}/studies", json={"study": study}).json()["study"]
            with working(client):
                wait_for(client, made, "completed")
                (got,) = receiver.wait_for(1)
            assert got.document["data"]["study"] == made
        service.close()


# --- looking, and sending again ------------------------------------------------------------------


def test_notifications_are_pages_with_filters(client: TestClient) -> None:
    ids = dead_letters(client, "s1", "s2", "s3")
    first = client.get(f"{BASE}/notifications?limit=2").json()
    rest = client.get(f"{BASE}/notifications?limit=2&cursor={first['next_cursor']}").json()
    assert [one["notification"] for one in (*first["items"], *rest["items"])] == ids
    assert rest["next_cursor"] is None
    (one,) = client.get(f"{BASE}/notifications?study=s2&state=dead").json()["items"]
    assert one == client.get(f"{BASE}/notifications/{one['notification']}").json()
    assert (one["event"], one["status"], one["detail"]) == ("study_failed", 500, "no")
    assert client.get(f"{BASE}/notifications?state=waiting").json()["items"] == []
    counts = client.get(f"{BASE}/studies/s2/notifications/counts").json()
    assert counts == {"waiting": 0, "dead": 1}
    metrics = client.get("/metrics").text
    assert 'arl_notifications{state="dead"} 3.0' in metrics
    assert 'arl_notifications{state="waiting"} 0.0' in metrics


def test_what_is_not_there_or_not_right_is_a_problem(client: TestClient) -> None:
    for path, status in (
        ("/notifications/nope", 404),
        ("/notifications/%00", 404),
        ("/notifications?study=nope", 404),
        ("/notifications?state=lost", 422),
        ("/notifications?cursor=x", 422),
        ("/notifications?cursor=WzEsIngiXQ", 422),
        ("/notifications?limit=0", 422),
        ("/studies/nope/notifications/counts", 404),
    ):
        found = client.get(f"{BASE}{path}")
        assert found.status_code == status, path
        assert found.headers["content-type"] == "application/problem+json", path


def test_who_may_submit_may_send_again_and_is_noted(client: TestClient) -> None:
    (name,) = dead_letters(client, "s1")
    admin = token(client, "admin")
    reader, sender = token(client, "read"), token(client, "read", "submit")
    path = f"{BASE}/notifications/{name}/resend"
    assert client.post(path).status_code == 401
    assert client.post(path, headers=reader).status_code == 403
    assert client.post(path, headers=token(client, "promote")).status_code == 404
    once = {**sender, "Idempotency-Key": "again"}
    first, second = client.post(path, headers=once), client.post(path, headers=once)
    assert (first.status_code, first.json()["state"]) == (202, "waiting")
    assert second.json() == first.json()
    assert client.post(f"{BASE}/notifications/nope/resend", headers=sender).status_code == 404
    (audited,) = [
        one
        for one in client.get(f"{BASE}/audit", headers=admin).json()["items"]
        if one["route"].endswith("/resend")
    ]
    assert audited["subject"] == f"notification={name}"
    assert audited["actor"].startswith("token:read-submit")
    assert "Traceback" not in json.dumps(audited)
    assert verify_ledger(service_of(client).ledger, None) == []
