"""HEAD is answered wherever GET is, through a real socket."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.shell_study import drive, open_service, submit
from tests.api_server import api_server

API = "/api/v1"
MOVING = {"date", "x-request-id", "transfer-encoding", "content-length"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """Of a server over a completed study called `shell`."""
    service = open_service(tmp_path)
    drive(service, submit(service, tmp_path, budget={"trials": 1}))
    with (
        api_server(service) as url,
        httpx.Client(base_url=url, timeout=20, trust_env=False) as made,
    ):
        yield made
    service.close()


def addresses(client: httpx.Client) -> list[str]:
    """Every address that GET has, with what the study has in place of each name."""
    trial = client.get(f"{API}/studies/shell/trials").json()["items"][0]
    detail = client.get(f"{API}/trials/{trial['id']}").json()
    named = {
        "study": "shell",
        "trial": trial["id"],
        "number": "0",
        "candidate": trial["candidate"],
        "attempt": detail["attempts"][0]["id"],
        "chain": trial["study"],
        "digest": detail["artifacts"][0]["digest"],
        "path": "params.json",
    }
    paths = client.get(f"{API}/openapi.json").json()["paths"]
    found = [path for path, methods in paths.items() if "get" in methods]
    return [re.sub(r"\{(\w+)\}", lambda m: named.get(m[1], "none"), path) for path in found]


def test_every_address_that_get_has_answers_head_alike_and_without_a_body(
    client: httpx.Client,
) -> None:
    asked = addresses(client)
    assert len(asked) > 40
    answered = 0
    for path in asked:
        if path == f"{API}/events":  # it never ends
            continue
        whole, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        told, expected = (
            {k: v for k, v in answer.headers.items() if k not in MOVING}
            for answer in (head, whole)
        )
        assert told == expected, path
        answered += whole.status_code == 200
    assert answered > 30


def test_head_of_a_stream_does_not_wait_for_its_end(client: httpx.Client) -> None:
    stream = {"Accept": "text/event-stream"}
    for path in (f"{API}/events", f"{API}/studies/shell/events"):
        head = client.head(path, headers=stream)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"].startswith("text/event-stream")
    assert client.get("/healthz").json() == {"status": "ok"}


def test_head_where_only_other_methods_are_is_refused_with_them(client: httpx.Client) -> None:
    refused = client.head(f"{API}/plans/study")
    assert (refused.status_code, refused.headers["allow"], refused.content) == (405, "POST", b"")
    assert client.head(f"{API}/nowhere").status_code == 404
    unknown = client.head(f"{API}/blobs/{'0' * 64}")
    assert (unknown.status_code, unknown.headers["upload-offset"]) == (404, "0")
