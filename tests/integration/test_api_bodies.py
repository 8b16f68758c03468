"""Whatever stands in a body, the server says what is wrong with it and errs in nothing."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from controller.settings import read_settings
from controller.wiring import build_service
from ledger.records import Verdict
from tests.api_runs import client_of
from tests.ledger_builders import driven

TEXTS: Final = ("\ud800", "\0", "", "x" * 5000, "\u202e\x1b[31m", "../../etc/passwd")
NUMBERS: Final = ("1e999", "-1e999", "1" + "0" * 400, "-1", "0.5", "NaN")
VALUES: Final = (*map(json.dumps, TEXTS), *NUMBERS, "null", "[]", "{}", "true")
MARK: Final = "the value in question"
METHODS: Final = ("post", "put", "patch")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Over one study, which has a trial."""
    home = tmp_path_factory.mktemp("bodies")
    service = build_service(read_settings({"ARL_HOME": str(home)}), create=True)
    made = driven(service.ledger)
    made.run_study()
    made.whole_trial(0, 0.5, verdict=Verdict.KEEP)
    with client_of(service) as found:
        yield found
    service.close()


def marked(value: Any) -> Iterator[Any]:
    """The document again and again, each time with the mark in another place; and one key more."""
    yield MARK
    if isinstance(value, dict):
        for key, inner in value.items():
            for one in marked(inner):
                yield {**value, key: one}
        yield {**value, "more": MARK}
    if isinstance(value, list) and value:
        for one in marked(value[0]):
            yield [one, *copy.deepcopy(value[1:])]


def bodies(document: Any, operation: Any) -> list[Any]:
    """Examples of what an operation takes."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    found: list[Any] = []
    for one in (schema, *schema.get("anyOf", ())):
        name = one.get("$ref", "").rpartition("/")[2]
        found += document["components"]["schemas"].get(name, {}).get("examples", [])
    return found


def test_no_body_makes_the_server_err(client: TestClient) -> None:
    document = client.get("/api/v1/openapi.json").json()
    trial = client.get("/api/v1/studies/s1/trials").json()["items"][0]
    named = {"study": "s1", "trial": trial["id"], "candidate": trial["candidate"], "number": "1"}
    headers = {"Content-Type": "application/json", "Trial-Token": "t"}
    erred: list[tuple[str, str, int]] = []
    sent = 0
    for path, item in document["paths"].items():
        address = re.sub(r"\{(\w+)\}", lambda found: named.get(found[1], "0" * 64), path)
        for method in METHODS:
            for example in bodies(document, item.get(method, {})):
                for one in marked(example):
                    for value in VALUES:
                        body = json.dumps(one).replace(json.dumps(MARK), value)
                        answer = client.request(method, address, content=body, headers=headers)
                        sent += 1
                        if answer.status_code >= 500:
                            erred.append((path, body[:300], answer.status_code))
    assert sent > 1000
    assert erred == []
