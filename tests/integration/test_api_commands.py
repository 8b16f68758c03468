"""Studies submitted over HTTP, their files sent by digest, and what is asked of them."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controller.api.access import LOCAL
from controller.api.remote_rules import check_remote
from controller.api.routes.blobs import uploads_of
from controller.api.uploads import Uploads
from controller.client import Client
from controller.client.uploading import PIECE_BYTES, Uploader
from controller.settings import read_settings
from controller.spec.loading import parse_study
from ledger import reads
from ledger.errors import DiskFull
from tests.acceptance.shell_study import document, open_service, write_evaluator
from tests.api_runs import client_of, service_of, token
from tests.api_server import api_server
from tests.api_studies import remote_document, send_tree, sha256, wait_for, working

ALLOW_LOCAL = {"ARL_API_ALLOW_LOCAL": "1"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    service = open_service(tmp_path, **ALLOW_LOCAL)
    with client_of(service) as made:
        yield made
    service.close()


def test_a_study_sent_over_http_runs_as_one_submitted_here(
    client: TestClient, tmp_path: Path
) -> None:
    body = {"study": remote_document(client, tmp_path / "sender")}
    made = client.post("/api/v1/studies", json=body)
    assert made.status_code == 201, made.text
    study = made.json()["study"]
    assert str(tmp_path) not in json.dumps(made.json())
    with working(client):
        wait_for(client, study, "completed")
    with service_of(client).ledger.read() as session:
        stored = reads.get_study(session, study)
        assert reads.best_trial(session, stored) is not None
    assert str(tmp_path) not in json.dumps(dict(stored.spec))
    assert list((tmp_path / ".arl" / "uploads").glob("staged-*")) == []


def test_one_study_is_made_of_twenty_equal_requests(client: TestClient, tmp_path: Path) -> None:
    body = {"study": remote_document(client, tmp_path / "sender")}
    key = {"Idempotency-Key": "one"}

    def post(_: int) -> Any:
        return client.post("/api/v1/studies", json=body, headers=key)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(post, range(20)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["study"] for answer in answers}) == 1
    with service_of(client).ledger.read() as session:
        assert len(reads.list_studies(session)) == 1
    other = {"study": {**body["study"], "name": "other"}}
    assert client.post("/api/v1/studies", json=other, headers=key).status_code == 422


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"program": {"kind": "command", "argv": ["x"], "source": "/etc"}}, "program.source"),
        (
            {"program": {"kind": "command", "argv": ["x"], "data": {"d": "../.."}}},
            "program.data.d",
        ),
        (
            {"program": {"kind": "command", "argv": ["x"], "source": "blob:" + "0" * 64}},
            "program.source",
        ),
        (
            {"program": {"kind": "command", "argv": ["x"], "source": f"blob:{'0' * 64}/../x"}},
            "program.source",
        ),
    ],
)
def test_a_path_of_the_server_is_never_opened(
    client: TestClient, tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    body = {"study": remote_document(client, tmp_path / "sender", **change)}
    refused = client.post("/api/v1/studies", json=body)
    assert refused.status_code == 422
    assert field in [error["field"] for error in refused.json()["errors"]], refused.text
    assert "blob:" in refused.json()["detail"] or "send" in refused.json()["detail"]


@pytest.mark.parametrize("split", ["/etc/passwd", "../../../../etc/passwd", "a/../../b"])
def test_a_split_lies_in_the_bundle_that_was_sent(
    client: TestClient, tmp_path: Path, split: str
) -> None:
    study = remote_document(client, tmp_path / "sender")
    study["evaluator"]["splits"] = {"search": split, "holdout": "holdout.jsonl"}
    refused = client.post("/api/v1/studies", json={"study": study})
    assert refused.status_code == 422
    assert [e["field"] for e in refused.json()["errors"]] == ["evaluator.splits.search"]


def test_the_operators_keys_go_only_where_the_operator_says(
    client: TestClient, tmp_path: Path
) -> None:
    endpoint = {"url": "https://thief.example/v1", "model": "m", "secret": "ARL_SECRET_KEY"}
    proposer = {"name": "llm", "options": {"endpoints": [endpoint]}}
    spec = remote_document(
        client, tmp_path / "sender", proposer=proposer, budget={"trials": 4, "llm_tokens": 1000}
    )
    refused = client.post("/api/v1/studies", json={"study": spec})
    assert refused.status_code == 422
    assert "ARL_API_SECRETS=ARL_SECRET_KEY@thief.example" in refused.json()["detail"]
    allowed = read_settings({"ARL_API_SECRETS": "ARL_SECRET_KEY@thief.example"})
    uploads = uploads_of(service_of(client), LOCAL)
    check_remote(parse_study(spec), uploads, allowed, may_promote=True)


def test_who_may_not_promote_leaves_it_to_somebody_who_may(
    client: TestClient, tmp_path: Path
) -> None:
    submitter = token(client, "submit", "read")
    promoter = token(client, "submit", "read", "promote")
    promotion = {"model": "toy", "profile": "quick"}
    for headers, status in ((submitter, 422), (promoter, 201)):
        write_evaluator(tmp_path / "sender")
        study = document(promotion=promotion, budget={"trials": 3}, noise={})
        tree = send_tree(client, tmp_path / "sender" / "evaluator", headers=headers)
        study["evaluator"]["bundle"] = f"blob:{tree}"
        body = {"study": study, "new": True}
        answer = client.post("/api/v1/studies", json=body, headers=headers)
        assert answer.status_code == status, answer.text
        if status == 422:
            assert [e["field"] for e in answer.json()["errors"]] == ["promotion.approval"]
            study["promotion"] = {**promotion, "approval": "required"}
            again = client.post(
                "/api/v1/studies", json={"study": study, "new": True}, headers=headers
            )
            assert again.status_code == 201, again.text
            study_id = again.json()["study"]
            with service_of(client).ledger.read() as session:
                assert reads.get_study(session, study_id).spec["promotion"]
            client.post(f"/api/v1/studies/{study_id}/cancel", headers=headers)


def test_an_empty_file_is_a_file(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_bytes(b"")
    tree = send_tree(client, tmp_path / "package")
    assert service_of(client).store.manifest(tree)[0][2] == 0


def test_what_is_sent_does_not_fill_the_disk(tmp_path: Path) -> None:
    service = open_service(tmp_path, ARL_DISK_MIN_FREE=str(2**60))
    with client_of(service) as client:
        refused = client.put(
            f"/api/v1/blobs/{sha256(b'x')}",
            content=b"x",
            headers={"Content-Type": "application/octet-stream"},
        )
    service.close()
    assert (refused.status_code, refused.json()["code"]) == (507, "disk_full")


def test_without_the_operators_word_nothing_runs_outside_a_sandbox(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    with client_of(service) as client:
        body = {"study": remote_document(client, tmp_path / "sender")}
        refused = client.post("/api/v1/studies", json=body)
    service.close()
    assert refused.status_code == 422
    assert "ARL_API_ALLOW_LOCAL" in refused.json()["detail"]


def test_a_digest_alone_gives_nobody_the_content(client: TestClient, tmp_path: Path) -> None:
    one, other = token(client, "submit", "read"), token(client, "submit", "read")
    write_evaluator(tmp_path / "sender")
    tree = send_tree(client, tmp_path / "sender" / "evaluator", headers=one)
    assert client.post("/api/v1/blobs/missing", json={"digests": [tree]}, headers=one).json() == {
        "missing": []
    }
    assert client.post(
        "/api/v1/blobs/missing", json={"digests": [tree]}, headers=other
    ).json() == {"missing": [tree]}
    stolen = document()
    stolen["evaluator"]["bundle"] = f"blob:{tree}"
    refused = client.post("/api/v1/studies", json={"study": stolen}, headers=other)
    assert refused.status_code == 422
    assert "did not send" in refused.json()["detail"]


def test_an_upload_goes_on_where_it_was_cut(client: TestClient, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40
    address = f"/api/v1/blobs/{sha256(data)}"

    def piece(first: int, last: int) -> Any:
        span = f"bytes {first}-{last}/{len(data)}"
        return client.put(
            address,
            content=data[first : last + 1],
            headers={"Content-Range": span, "Content-Type": "application/octet-stream"},
        )

    assert client.head(address).headers["upload-offset"] == "0"
    assert piece(0, 4095).json() == {
        "digest": sha256(data),
        "received": 4096,
        "is_complete": False,
    }
    again = piece(0, 4095)
    assert again.status_code == 409
    assert again.headers["upload-offset"] == "4096"
    assert client.head(address).headers["upload-offset"] == "4096"
    assert piece(4096, len(data) - 1).json()["is_complete"]
    assert client.head(address).status_code == 200
    wrong = client.put(
        f"/api/v1/blobs/{'0' * 64}",
        content=b"x",
        headers={"Content-Type": "application/octet-stream"},
    )
    assert wrong.status_code == 422
    assert client.head(f"/api/v1/blobs/{'0' * 64}").headers["upload-offset"] == "0"
    for trick in ("..%2f..%2fetc%2fpasswd", "A" * 64, "0" * 63):
        assert client.head(f"/api/v1/blobs/{trick}").status_code == 404


def test_an_upload_whose_last_piece_came_and_was_not_checked_is_ended_by_sending_it_again(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model" / "weights"
    file.parent.mkdir()
    file.write_bytes(b"w" * (PIECE_BYTES + 5))
    keep = Uploads._keep

    def die(*_: object) -> None:
        raise DiskFull("the server was killed, say")

    with api_server(service_of(client)) as url, Client(url) as sender:
        monkeypatch.setattr(Uploads, "_keep", die)
        with pytest.raises(DiskFull):
            Uploader(sender.connection).send(file.parent)
        monkeypatch.setattr(Uploads, "_keep", keep)
        assert Uploader(sender.connection).send(file.parent).startswith("blob:")
        state = sender.connection.send("HEAD", f"/blobs/{sha256(file.read_bytes())}")
    assert state.status_code == 200


def test_a_study_is_paused_resumed_extended_and_cancelled(
    client: TestClient, tmp_path: Path
) -> None:
    slow = {"kind": "command", "argv": ["/bin/sh", "-c", "sleep 0.2; mkdir $ARL_OUTPUT/model"]}
    spec = remote_document(client, tmp_path / "s", program=slow, budget={"trials": 500})
    study = client.post("/api/v1/studies", json={"study": spec}).json()["study"]

    def ask(verb: str, body: Any = None, **query: Any) -> Any:
        wanted = {"wait": 10, **query}
        return client.post(f"/api/v1/studies/{study}/{verb}", json=body, params=wanted)

    waiting = ask("pause", wait=0)
    assert (waiting.status_code, waiting.json()["answer"]) == (202, "pending")
    with working(client):
        assert ask("resume").json()["answer"] in ("applied", "pending")
        assert ask("pause").json()["state"] == "paused"
        assert ask("pause").status_code == 409
        assert ask("extend", {"trials": {"by": 5}}).json()["answer"] == "applied"
        assert ask("extend", {"trials": {"to": 1}}).status_code in (202, 409)
        assert ask("extend", {}).status_code == 422
        assert ask("extend", {"trials": {"by": 1, "to": 2}}).status_code == 422
        assert ask("extend", {"wall_s": {"by": 1}}).status_code == 409
        assert ask("cancel").json()["state"] == "cancelled"
        again = ask("cancel")
        assert again.status_code == 409
        assert "already cancelled" in again.json()["detail"]
    assert client.post("/api/v1/studies/none/pause").status_code == 404
    assert client.post("/api/v1/candidates/none/replay").status_code == 404
    convert = "/api/v1/candidates/none/convert"
    assert client.post(convert, json={"quantize": "int8"}).status_code == 404
    for bad in ({}, {"quantize": "int8", "merge": True}, {"quantize": "int3"}, {"margin": -1}):
        assert client.post(convert, json=bad).status_code == 422
    assert client.post(convert, json={"quantize": "int8", "python": "/bin/sh"}).status_code == 422
    assert client.post("/api/v1/promotions/none/approve").status_code == 404


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "http://localhost:8000/v1",
        "https://169.254.169.254/latest",
        "http://[::1]/v1",
        "http://[::ffff:10.0.0.1]/v1",
        "http://10.1.2.3/v1",
        "http://0.0.0.0/v1",
        "http://2130706433/v1",
    ],
)
def test_a_study_that_is_sent_names_no_private_address(
    client: TestClient, tmp_path: Path, url: str
) -> None:
    proposer = {"name": "llm", "options": {"endpoints": [{"url": url, "model": "m"}]}}
    spec = remote_document(
        client, tmp_path / "sender", proposer=proposer, budget={"trials": 4, "llm_tokens": 1000}
    )
    refused = client.post("/api/v1/studies", json={"study": spec})
    assert refused.status_code == 422
    assert "ARL_MODELS_ALLOW_PRIVATE" in refused.json()["detail"], refused.text
