"""Models over HTTP: aliases, roll backs and evidence, with scopes, keys and the audit."""

import io
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controller.api.routes import models
from controller.cli.model_source import ServerModels
from controller.client import Client
from controller.registry.checking import check_directory
from controller.registry.pointers import check_standing
from controller.wiring import Service
from ledger.errors import Conflict
from ledger.heads import RecordedHead, current_heads, read_heads
from ledger.verify import verify_ledger
from tests.api_runs import client_of, service_of, token
from tests.api_server import api_server
from tests.promoted_models import MODEL, artifact_file, numbered

BASE = f"/api/v1/models/{MODEL}"


@pytest.fixture
def client(promoted: Service) -> Iterator[TestClient]:
    with client_of(promoted) as made:
        yield made


def alias(client: TestClient, promotion: int | None, expected: int | None, **more: Any) -> Any:
    body = {"alias": "production", "promotion": promotion, "expected": expected}
    return client.post(f"{BASE}/aliases", json=body, **more)


def back(client: TestClient, to: int, expected: int, **more: Any) -> Any:
    body = {"to": to, "expected": expected, "note": "answers too long"}
    return client.post(f"{BASE}/rollback", json=body, **more)


def test_a_model_shows_whose_it_is_and_what_names_it(client: TestClient) -> None:
    assert alias(client, 1, None).json()["promotion"] == 1
    listed = client.get("/api/v1/models").json()["items"]
    assert [(m["model"], m["incumbent"]["seq"]) for m in listed] == [(MODEL, 2)]
    shown = client.get(BASE).json()
    assert [(a["alias"], a["promotion"]) for a in shown["aliases"]] == [("production", 1)]
    assert [a["promotion"] for a in shown["alias_changes"]] == [1]
    history = client.get(f"{BASE}/incumbents").json()["items"]
    assert [(p["seq"], p["aliases"]) for p in history] == [(2, []), (1, ["production"])]
    assert history[0]["signature"]["number"] == 1
    assert history[1]["signature"] is None
    assert client.get("/api/v1/models/nothing").status_code == 404
    assert client.get("/api/v1/models/a%00b").status_code == 404


def test_a_position_has_its_lineage_evidence_and_card(client: TestClient) -> None:
    found = client.get(f"{BASE}/incumbents/2").json()
    assert found["lineage"]["parameters"] == {"x": 0.9}
    assert found["lineage"]["holdout"]["holdout_a"]["candidate"]["mean"] == 0.9
    assert found["evidence"]["gain"] == pytest.approx(0.6)
    assert found["card"].startswith("---")
    files = client.get(f"{BASE}/incumbents/2/evidence").json()["files"]
    assert set(files) >= {"card.md", "model.sig", "statement.dsse.json", "promotion.json"}
    assert files["card.md"] == found["card"]
    assert client.get(f"{BASE}/incumbents/1/evidence").status_code == 404
    assert client.get(f"{BASE}/incumbents/3").status_code == 404
    assert client.get(f"{BASE}/incumbents/0").status_code == 422


def test_a_roll_back_happens_once_and_is_in_the_audit(client: TestClient) -> None:
    key = {"Idempotency-Key": "back"}
    moved = back(client, 1, 2, headers=key)
    assert moved.status_code == 201, moved.text
    assert (moved.json()["seq"], moved.json()["rolled_back_to"]) == (3, 1)
    assert moved.json()["note"] == "answers too long"
    again = back(client, 1, 2, headers=key)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == moved.json()
    refused = back(client, 1, 2)
    assert refused.status_code == 409
    assert "number 3 now" in refused.json()["detail"]
    admin = token(client, "admin")
    audited = client.get("/api/v1/audit", headers=admin).json()["items"]
    assert [a["route"] for a in audited] == ["/models/{model}/rollback"]


def test_a_roll_back_whose_server_died_before_it_wrote_the_heads_writes_them_when_sent_again(
    client: TestClient,
) -> None:
    key = {"Idempotency-Key": "back"}
    heads = service_of(client).settings.heads_path
    before = heads.read_bytes() if heads.exists() else b""
    assert back(client, 1, 2, headers=key).status_code == 201
    written = heads.read_bytes()
    heads.write_bytes(before)
    again = back(client, 1, 2, headers=key)
    assert again.headers["Idempotency-Replayed"] == "true"
    ends = {head.chain: head for head in read_heads(heads)}
    assert ends == {head.chain: head for head in current_heads_of(client)}
    assert len(written) > len(before)


def current_heads_of(client: TestClient) -> list[RecordedHead]:
    with service_of(client).ledger.read() as session:
        return current_heads(session)


def test_a_roll_back_to_what_is_not_whole_leaves_the_incumbent(client: TestClient) -> None:
    artifact_file(service_of(client), numbered(service_of(client), 1)).unlink()
    for refused in (back(client, 1, 2), alias(client, 1, None)):
        assert refused.status_code == 409
        assert "not in the store" in refused.json()["detail"]
        assert str(service_of(client).settings.home) not in refused.text
    assert client.get(BASE).json()["incumbent"]["seq"] == 2


def note(client: TestClient, number: int, text: str, **more: Any) -> Any:
    return client.post(f"{BASE}/incumbents/{number}/notes", json={"note": text}, **more)


def test_what_is_noted_of_a_promotion_stays_with_it(client: TestClient) -> None:
    assert note(client, 1, "terser").status_code == 201
    assert [n["note"] for n in note(client, 1, "3 users agree").json()["notes"]] == [
        "terser",
        "3 users agree",
    ]
    history = client.get(f"{BASE}/incumbents").json()["items"]
    assert [len(position["notes"]) for position in history] == [0, 2]
    assert history[1]["notes"][0]["actor"] == "api:local user"
    for wrong, status in (("", 422), ("  ", 422), ("n" * 2001, 422)):
        assert note(client, 1, wrong).status_code == status, wrong
    assert note(client, 9, "nothing").status_code == 404
    assert note(client, 1, "may not", headers=token(client, "read")).status_code == 403
    service = service_of(client)
    assert verify_ledger(service.ledger, None) == []


def test_the_evidence_is_saved_as_one_file_that_verifies_elsewhere(
    client: TestClient, tmp_path: Path
) -> None:
    saved = client.get(f"{BASE}/incumbents/2/evidence.tar")
    assert saved.headers["content-disposition"] == f'attachment; filename="{MODEL}-2.tar"'
    assert int(saved.headers["content-length"]) == len(saved.content)
    with tarfile.open(fileobj=io.BytesIO(saved.content)) as folder:
        folder.extractall(tmp_path / "out", filter="data")
    found = check_directory(tmp_path / "out" / f"{MODEL}-2", {}, None)
    assert (found.findings, found.signatures) == ([], 1)
    without = client.get(f"{BASE}/incumbents/2/evidence.tar?model=false").content
    with tarfile.open(fileobj=io.BytesIO(without)) as folder:
        assert not any("/model/" in name for name in folder.getnames())
    assert client.get(f"{BASE}/incumbents/1/evidence.tar").status_code == 404


def test_a_promotion_is_checked_and_what_changed_is_named(client: TestClient) -> None:
    found = client.get(f"{BASE}/incumbents/2/check").json()
    assert (found["ok"], found["signatures"], found["key_is_known"]) == (True, 1, True)
    unsigned = client.get(f"{BASE}/incumbents/1/check").json()
    assert not unsigned["ok"]
    assert "not signed" in unsigned["findings"][0]["problem"]
    artifact_file(service_of(client), numbered(service_of(client), 2)).unlink()
    gone = client.get(f"{BASE}/incumbents/2/check")
    assert gone.json()["ok"] is False
    assert str(service_of(client).settings.home) not in gone.text
    assert client.get(f"{BASE}/incumbents/9/check").status_code == 404


def test_only_who_may_promote_moves_anything(client: TestClient) -> None:
    reader, submitter = token(client, "read"), token(client, "read", "submit")
    promoter = token(client, "read", "promote")
    for headers in (reader, submitter):
        assert alias(client, 1, None, headers=headers).status_code == 403
        assert back(client, 1, 2, headers=headers).status_code == 403
    assert client.get(BASE, headers=reader).status_code == 200
    assert alias(client, 1, None, headers=promoter).status_code == 200
    assert "token:read-promote" in client.get(BASE, headers=reader).json()["aliases"][0]["actor"]


@pytest.mark.parametrize(
    "body",
    [
        {"alias": "production", "promotion": 1},
        {"alias": "7", "promotion": 1, "expected": None},
        {"alias": "a b", "promotion": 1, "expected": None},
        {"alias": "production", "promotion": "1", "expected": None},
        {"alias": "production", "promotion": 0, "expected": None},
        {"alias": "production", "promotion": 1, "expected": None, "note": "n" * 3000},
        {"alias": "production", "promotion": 1, "expected": None, "more": 1},
    ],
)
def test_a_wrong_alias_is_refused_with_the_field(client: TestClient, body: dict[str, Any]) -> None:
    refused = client.post(f"{BASE}/aliases", json=body)
    assert refused.status_code == 422, refused.text
    assert client.get(BASE).json()["aliases"] == []


def test_the_client_waits_while_the_server_reads_a_model(
    promoted: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_slowly(*given: Any) -> Any:
        time.sleep(3.0)
        return check_standing(*given)

    monkeypatch.setattr(models, "check_standing", check_slowly)
    with api_server(promoted) as url, Client(url, timeout_s=2.0) as client:
        assert client.set_alias(MODEL, "production", 1, expected=None).promotion == 1
        assert client.roll_back(MODEL, 1, expected=2).seq == 3
        assert len(list(client.incumbents(MODEL))) == 3


def test_the_typed_client_does_all_of_it(promoted: Service) -> None:
    with api_server(promoted) as url, Client(url) as arl:
        assert [found.model for found in arl.models()] == [MODEL]
        assert arl.set_alias(MODEL, "production", 2, expected=None).promotion == 2
        with pytest.raises(Conflict, match="names number 2 now"):
            arl.set_alias(MODEL, "production", 1, expected=None)
        moved = arl.roll_back(MODEL, 1, expected=2, note="why")
        assert [p.seq for p in arl.incumbents(MODEL)] == [moved.seq, 2, 1]
        assert arl.incumbent(MODEL, moved.seq).rolled_back_to == 1
        assert "card.md" in arl.evidence(MODEL, 2).files
        source = ServerModels(arl)
        assert source.model(MODEL)["aliases"] != []
