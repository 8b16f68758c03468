"""Every operation of the API against every token: who may, who may not, and what they are told."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from tests.api_runs import api_over, token

V1: Final = "/api/v1"
NOT_ASKED: Final = {f"GET {V1}/events"}
"""It never ends; its dependency is the one of all the other lists."""
OPEN: Final = {"GET /healthz", "GET /readyz", f"POST {V1}/session", f"DELETE {V1}/session"}
READ_BY_POST: Final = {f"POST {V1}/plans/{name}" for name in ("rollout-gpus", "study", "validate")}
PROMOTE: Final = {
    *(f"POST {V1}/models/{{model}}/{name}" for name in ("aliases", "rollback")),
    f"POST {V1}/models/{{model}}/incumbents/{{number}}/notes",
    *(f"POST {V1}/promotions/{{family}}/{name}" for name in ("approve", "decline")),
}
ADMIN: Final = {
    *(f"{method} {V1}/tokens" for method in ("GET", "POST")),
    *(f"GET {V1}/{name}" for name in ("audit", "verify")),
    f"DELETE {V1}/tokens/{{token}}",
}
SUBMIT_BY_GET: Final = {
    f"HEAD {V1}/blobs/{{digest}}",
    f"GET {V1}/trials/{{trial}}/should-stop",
    f"GET {V1}/trials/{{trial}}/inputs/{{mount}}",
    f"GET {V1}/trials/{{trial}}/inputs/{{mount}}/{{path}}",
}
SCOPES: Final = ("read", "submit", "promote", "admin")
BODIES: Final = (
    b"{}",
    b"[1]",
    b'{"client": 7, "outcome": "won", "values": {}}',
    b"{",
    b'{"a": 1e999}',
    b'{"long": "' + b"x" * 100_000 + b'", }',
)
"""None is what an operation with a body takes: who may not ask is told nothing of that."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with api_over(tmp_path_factory.mktemp("scopes")) as made:
        yield made


@pytest.fixture(scope="module")
def operations(client: TestClient) -> list[str]:
    app: Any = client.app
    paths = app.openapi()["paths"]
    found = [f"{method.upper()} {path}" for path, item in paths.items() for method in item]
    return sorted(set(found) - NOT_ASKED)


def needed(operation: str) -> str | None:
    """The scope that an operation asks for; None: it asks for no token."""
    if operation in OPEN:
        return None
    if operation in ADMIN:
        return "admin"
    if operation in PROMOTE:
        return "promote"
    is_read = operation.startswith("GET ") or operation in READ_BY_POST
    return "read" if is_read and operation not in SUBMIT_BY_GET else "submit"


def ask(client: TestClient, operation: str, headers: Mapping[str, str]) -> set[int]:
    """The statuses of what it is answered: with each body, with a trial's token and without."""
    method, path = operation.split(" ")
    values = {"digest": "a" * 64, "number": "1"}
    address = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], "zz"), path)
    sent: dict[str, Any] = {"headers": {"Content-Type": "application/json", **headers}}
    if method in ("POST", "PUT", "PATCH"):
        return {client.request(method, address, content=b, **sent).status_code for b in BODIES}
    sent["headers"]["Trial-Token"] = "t"
    return {client.request(method, address, **sent).status_code}


def test_the_lists_above_name_operations_that_exist(operations: list[str]) -> None:
    assert OPEN | READ_BY_POST | PROMOTE | ADMIN | SUBMIT_BY_GET <= set(operations)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer arl_" + "x" * 43}, {"Cookie": "arl_session=arl_" + "x" * 43}],
)
def test_without_a_valid_token_nothing_is_answered(
    client: TestClient, operations: list[str], headers: dict[str, str]
) -> None:
    token(client, "admin")
    answers = {op: ask(client, op, headers) for op in operations}
    assert {op for op, statuses in answers.items() if statuses != {401}} == OPEN


@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_may_what_its_scope_is_for_and_is_told_which_one_it_lacks(
    client: TestClient, operations: list[str], scope: str
) -> None:
    headers = token(client, *{"read", scope})
    answers = {op: ask(client, op, headers) for op in operations}
    lacking = {op for op in operations if needed(op) not in (None, "read", scope)}
    expected = lacking if scope != "admin" else set()
    assert {op for op, statuses in answers.items() if statuses == {403}} == expected
    told = {op: s for op, s in answers.items() if op not in expected}
    assert not {op: s for op, s in told.items() if s & {401, 403} or max(s) >= 500}


@pytest.mark.parametrize("scope", ["submit", "promote"])
def test_a_token_that_may_not_read_is_not_told_what_there_is(
    client: TestClient, operations: list[str], scope: str
) -> None:
    headers = token(client, scope)
    for operation in operations:
        if needed(operation) in (None, scope) or operation.endswith("/whoami"):
            continue
        assert ask(client, operation, headers) == {404}, operation
