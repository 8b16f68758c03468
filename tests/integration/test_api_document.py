"""The OpenAPI document is whole: examples, errors, and a key on everything that is posted."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api_runs import api_over, token

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("get", "post", "put", "patch", "delete", "head")
KEYLESS = {"/api/v1/session"}
"""Signing in sets a cookie and changes nothing here."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with api_over(tmp_path / ".arl") as made:
        yield made


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                yield method, path, methods[method]


def models_of(content: Any) -> Iterator[str]:
    """Names of the models that a body or answer is made of."""
    schema = content.get("application/json", {}).get("schema", {})
    for one in (schema, *schema.get("anyOf", ())):
        if "$ref" in one:
            yield one["$ref"].rpartition("/")[2]


def test_every_model_has_an_example_and_every_operation_says_how_it_refuses(
    client: TestClient,
) -> None:
    document = client.get("/api/v1/openapi.json").json()
    schemas = document["components"]["schemas"]
    seen: set[str] = set()
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert operation.get("summary"), where
        assert operation.get("description"), where
        answers = operation["responses"]
        for status in ("400", "401", "403", "413", "421", "422", "500", "503"):
            problem = answers[status]["content"]["application/problem+json"]["schema"]
            assert problem["$ref"].endswith("/Problem"), (where, status)
        good = [answer for status, answer in answers.items() if status < "300"]
        assert good, where
        contents = [answer.get("content", {}) for answer in good]
        if method not in ("get", "head", "delete"):
            contents.append(operation.get("requestBody", {}).get("content", {}))
        seen.update(name for content in contents for name in models_of(content))
    without = [
        name for name in sorted(seen) if "examples" not in schemas[name] and "[" not in name
    ]
    assert [name for name in without if not name.startswith("Page_")] == []
    assert len(seen) > 40


def test_the_document_that_the_dashboard_is_built_against_is_this_one(client: TestClient) -> None:
    stored = json.loads((ROOT / "web" / "openapi.json").read_text(encoding="utf-8"))
    served = client.get("/api/v1/openapi.json").json()
    assert served["paths"].keys() == stored["paths"].keys()
    assert served["components"]["schemas"] == stored["components"]["schemas"]


def test_everything_that_is_posted_takes_a_key(client: TestClient) -> None:
    document = client.get("/api/v1/openapi.json").json()
    posted = [(path, found) for method, path, found in operations(document) if method == "post"]
    assert len(posted) > 15
    for path, operation in posted:
        names = {parameter["name"].lower() for parameter in operation.get("parameters", [])}
        assert ("idempotency-key" in names) is (path not in KEYLESS), path


SIZING = {
    "prompts": 64,
    "group_size": 8,
    "average_tokens": 512,
    "tokens_per_second": 2500,
    "window_s": 60,
}


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("plans/rollout-gpus", SIZING, {**SIZING, "prompts": 65}),
        ("plans/validate", {"study": {"name": "a"}}, {"study": {"name": "b"}}),
        ("blobs/missing", {"digests": ["0" * 64]}, {"digests": ["1" * 64]}),
        (
            "tokens",
            {"name": "a", "scopes": ["read"]},
            {"name": "b", "scopes": ["read"]},
        ),
    ],
)
def test_a_key_is_one_requests_whatever_the_route(
    client: TestClient, path: str, body: Any, other: Any
) -> None:
    headers = {**token(client, "admin"), "Idempotency-Key": "k"}

    def post(sent: Any, **more: str) -> Any:
        return client.post(f"/api/v1/{path}", json=sent, headers={**headers, **more})

    first, again = post(body), post(body)
    assert first.is_success, first.text
    assert again.status_code == first.status_code
    assert {k: v for k, v in again.json().items() if k != "token"} == {
        k: v for k, v in first.json().items() if k != "token"
    }
    refused = post(other)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert "another request" in refused.json()["detail"]
    # A key is its owner's, and a refused request does not use it up.
    assert post(other, **token(client, "admin")).is_success
    assert post({"nonsense": 1}, **{"Idempotency-Key": "k2"}).status_code == 422
    assert post(body, **{"Idempotency-Key": "k2"}).is_success
