"""Who may use the API: the local user, tokens with scopes, and nobody else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from controller.api.options import ApiOptions
from controller.api.serving import check_reach
from ledger.errors import InvalidInput
from ledger.verify import verify_ledger
from tests.api_runs import api_over, service_of, token

PROBLEM = "application/problem+json"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with api_over(tmp_path) as made:
        yield made


def test_the_local_user_may_everything_until_there_is_a_token(client: TestClient) -> None:
    who = client.get("/api/v1/whoami").json()
    assert who == {
        "name": "local user",
        "token": None,
        "scopes": ["read", "submit", "promote", "admin"],
    }
    token(client, "read")
    refused = client.get("/api/v1/whoami")
    assert refused.status_code == 401
    assert refused.headers["content-type"] == PROBLEM
    assert refused.json()["code"] == "unauthorized"
    assert refused.headers["www-authenticate"].startswith("Bearer")


def test_a_token_may_what_its_scopes_say(client: TestClient) -> None:
    reader, admin = token(client, "read"), token(client, "admin")
    submitter = token(client, "submit")
    assert client.get("/api/v1/whoami", headers=reader).json()["scopes"] == ["read"]
    assert client.get("/api/v1/tokens", headers=reader).status_code == 403
    assert client.get("/api/v1/tokens", headers=submitter).status_code == 404
    assert len(client.get("/api/v1/tokens", headers=admin).json()["items"]) == 3


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer x", "Basic YTpi", "arl_x", "Bearer arl_" + "a" * 43, "Bearer \xff"],
)
def test_what_is_no_token_opens_nothing(client: TestClient, header: str) -> None:
    headers = {"Authorization": header.encode("latin-1")}
    assert client.get("/api/v1/whoami", headers=headers).status_code == 401


def test_a_token_ends_when_it_expires_or_is_revoked(client: TestClient) -> None:
    short, admin = token(client, "read", expires_in_s=3600), token(client, "admin")
    listed = client.get("/api/v1/tokens", headers=admin).json()["items"]
    short_id = next(one["id"] for one in listed if one["name"] == "read")
    assert client.get("/api/v1/whoami", headers=short).status_code == 200
    with service_of(client).ledger.write() as session:  # an hour later
        session.connection.execute(
            text("UPDATE tokens SET expires_at = 1 WHERE id = :id"), {"id": short_id}
        )
    assert client.get("/api/v1/whoami", headers=short).status_code == 401
    own_id = next(one["id"] for one in listed if one["name"] == "admin")
    assert client.delete(f"/api/v1/tokens/{short_id}", headers=admin).status_code == 204
    assert client.delete("/api/v1/tokens/t0", headers=admin).status_code == 404
    assert client.delete(f"/api/v1/tokens/{own_id}", headers=admin).status_code == 204
    assert client.get("/api/v1/whoami", headers=admin).status_code == 401
    nobody = client.get("/api/v1/whoami")
    assert nobody.status_code == 401, "a server whose tokens all ended is open to nobody"


def test_a_token_is_shown_once_and_stored_nowhere(client: TestClient, tmp_path: Path) -> None:
    body = {"name": "ci", "scopes": ["submit", "read"], "expires_in_s": 3600}
    key = {"Idempotency-Key": "k1"}
    made = client.post("/api/v1/tokens", json=body, headers=key)
    assert made.status_code == 201
    secret = made.json()["token"]
    assert secret.startswith("arl_")
    owner = {"Authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/whoami", headers=owner).json()["scopes"] == ["read", "submit"]
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_a_repeated_key_does_nothing_twice(client: TestClient) -> None:
    body = {"name": "ci", "scopes": ["admin"]}
    first = client.post("/api/v1/tokens", json=body, headers={"Idempotency-Key": "k"})
    admin = {"Authorization": f"Bearer {first.json()['token']}", "Idempotency-Key": "k2"}
    answers = [client.post("/api/v1/tokens", json=body, headers=admin) for _ in range(3)]
    assert [a.status_code for a in answers] == [201] * 3
    assert len({a.json()["id"] for a in answers}) == 1
    assert [a.headers.get("idempotency-replayed") for a in answers] == [None, "true", "true"]
    other = client.post("/api/v1/tokens", json={**body, "name": "x"}, headers=admin)
    assert other.status_code == 422
    assert "another request" in other.json()["detail"]


def test_every_change_is_audited_in_the_chain(client: TestClient) -> None:
    body = {"name": "ci", "scopes": ["admin"]}
    made = client.post("/api/v1/tokens", json=body).json()
    admin = {"Authorization": f"Bearer {made['token']}"}
    client.delete(f"/api/v1/tokens/{made['id']}x", headers=admin)  # refused: changes nothing
    found = client.get("/api/v1/audit", headers=admin).json()
    assert [(one["actor"], one["method"], one["route"]) for one in found["items"]] == [
        ("api:local user", "POST", "/tokens")
    ]
    assert verify_ledger(service_of(client).ledger, None) == []


def test_the_audit_is_paged_from_either_end(client: TestClient) -> None:
    admin = token(client, "admin")
    for number in range(5):
        body = {"name": f"t{number}", "scopes": ["read"]}
        assert client.post("/api/v1/tokens", json=body, headers=admin).status_code == 201
    for order in ("asc", "desc"):
        seen: list[int] = []
        cursor: str | None = ""
        while cursor is not None:
            asked = {"order": order, "limit": 2, **({"cursor": cursor} if cursor else {})}
            page = client.get("/api/v1/audit", params=asked, headers=admin).json()
            seen += [one["seq"] for one in page["items"]]
            cursor = page["next_cursor"]
        assert len(seen) == 5
        assert seen == sorted(seen, reverse=order == "desc")


@pytest.mark.parametrize(
    "address", ["entries?chain=service", "chains/service", "chains/service/links"]
)
def test_the_chain_that_holds_the_audit_is_for_who_may_see_the_audit(
    client: TestClient, address: str
) -> None:
    reader, admin = token(client, "read"), token(client, "admin")
    refused = client.get(f"/api/v1/{address}", headers=reader)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert client.get(f"/api/v1/{address}", headers=admin).status_code == 200


def test_a_browser_signs_in_with_a_cookie_that_scripts_cannot_read(client: TestClient) -> None:
    made = token(client, "read")["Authorization"].removeprefix("Bearer ")
    assert client.post("/api/v1/session", json={"token": "arl_wrong"}).status_code == 401
    signed = client.post("/api/v1/session", json={"token": made})
    assert signed.status_code == 200
    cookie = signed.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/api/v1/whoami").json()["scopes"] == ["read"]
    client.delete("/api/v1/session")
    assert client.get("/api/v1/whoami").status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8420", "", "127.0.0.1.evil.example"]
)
def test_another_name_is_not_answered(client: TestClient, host: str) -> None:
    refused = client.get("/api/v1/whoami", headers={"Host": host})
    assert refused.status_code == 421
    assert refused.json()["code"] == "wrong_host"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_another_sites_page_changes_nothing(client: TestClient, headers: dict[str, str]) -> None:
    body = {"name": "ci", "scopes": ["admin"]}
    assert client.post("/api/v1/tokens", json=body, headers=headers).status_code == 403
    assert client.get("/api/v1/tokens").json()["items"] == []
    own = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/v1/tokens", json=body, headers=own).status_code == 201


def test_a_token_in_the_address_is_refused_and_not_logged(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="arl"):
        refused = client.get("/api/v1/whoami?access_token=arl_secret")
    assert refused.status_code == 400
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("arl")]
    assert ours
    assert not any("arl_secret" in line for line in ours)
    assert "arl_secret" not in refused.text


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "line 1"),
        (b"", 400, "body"),
        (b'{"name": "a", "name": "b", "scopes": ["read"]}', 400, "two of 'name'"),
        (b'{"name": "a", "scopes": ["read"], "expires_in_s": NaN}', 400, "NaN"),
        (b"[" * 5000 + b"]" * 5000, 400, "nested"),
        (b'{"name": "a", "scopes": ["read"], "more": 1}', 422, "more"),
        (b'{"name": "a", "scopes": ["root"]}', 422, "scopes.0"),
        (b'{"name": "a", "scopes": []}', 422, "scopes"),
        (b'{"name": 7, "scopes": ["read"]}', 422, "name"),
        (b'{"name": "\xff", "scopes": ["read"]}', 400, "UTF-8"),
        (b"1" * 5000, 400, "digits"),
        (b'{"name": "a", "scopes": ["read"], "expires_in_s": 1e999}', 400, "1e999"),
        (b'{"name": "\\ud83d", "scopes": ["read"]}', 400, "half of a character"),
    ],
)
def test_a_bad_body_is_told_what_is_wrong(
    client: TestClient, body: bytes, status: int, words: str
) -> None:
    refused = client.post(
        "/api/v1/tokens", content=body, headers={"Content-Type": "application/json"}
    )
    assert refused.status_code == status, refused.text
    assert refused.headers["content-type"] == PROBLEM
    assert words in json.dumps(refused.json()), refused.text
    assert client.get("/api/v1/tokens").json()["items"] == []


def test_a_character_in_two_halves_is_whole(client: TestClient) -> None:
    body = b'{"name": "\\ud83d\\ude00", "scopes": ["read"]}'
    made = client.post(
        "/api/v1/tokens", content=body, headers={"Content-Type": "application/json"}
    )
    assert (made.status_code, made.json()["name"]) == (201, "\U0001f600")


def test_a_huge_body_is_cut_off(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    declared = client.post("/api/v1/tokens", content=b" " * 3_000_000, headers=headers)
    assert declared.status_code == 413
    sent = client.post(
        "/api/v1/tokens", content=(b" " * 100_000 for _ in range(100)), headers=headers
    )
    assert sent.status_code == 413
    assert sent.json()["code"] == "too_large"


def test_beyond_this_machine_it_does_not_start_without_a_token(client: TestClient) -> None:
    service = service_of(client)
    check_reach(service, ApiOptions(host="::1"))
    for host in ("0.0.0.0", "10.0.0.1", "arl.example", "::"):
        with pytest.raises(InvalidInput, match="arl token create"):
            check_reach(service, ApiOptions(host=host))
    token(client, "read")
    check_reach(service, ApiOptions(host="0.0.0.0"))


def test_the_dashboard_carries_a_strict_policy(tmp_path: Path) -> None:
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html>", encoding="utf-8")
    (static / "assets" / "app-1234.js").write_text("1", encoding="utf-8")
    (tmp_path / "secret").write_text("no", encoding="utf-8")
    with api_over(tmp_path / "home", static=static) as client:
        for address in ("/", "/studies/s1", "/trials/x/../y"):
            page = client.get(address)
            assert page.text == "<!doctype html>"
            assert "default-src 'self'" in page.headers["content-security-policy"]
        asset = client.get("/assets/app-1234.js")
        assert "immutable" in asset.headers["cache-control"]
        for missing in ("/assets/none.js", "/api/v1/none", "/api/v2"):
            assert client.get(missing).status_code == 404
        for trick in ("/assets/../../secret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret"):
            assert client.get(trick).text != "no"


def test_prometheus_reads_requests_and_the_ledger(client: TestClient) -> None:
    client.get("/api/v1/whoami")
    client.get("/api/v1/studies/none")
    client.get("/nothing/like/that?x=1")
    read = client.get("/metrics").text
    counted = 'arl_http_requests_total{method="GET",route="/whoami",status="200"} 1.0'
    assert counted in read
    assert 'route="/studies/{study}",status="404"' in read
    assert "nothing/like/that" not in read
    for word in ("BREW", "X-1", "X-2"):  # or whoever asks could fill the memory
        assert client.request(word, "/api/v1/whoami").status_code == 405
    assert 'method="other"' in client.get("/metrics").text
    assert "BREW" not in client.get("/metrics").text
    assert 'arl_studies{state="running"} 0.0' in read
    assert "arl_disk_free_bytes" in read
    token(client, "read")
    assert client.get("/metrics").status_code == 401
