"""Names that climb out, in every part of every address: nothing outside the store is shown."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi.testclient import TestClient

from controller.campaigns.log import CampaignLog
from tests import promoted_models
from tests.api_runs import api_over, service_of
from tests.integration.test_campaign_reading import begun

SENTINEL: Final = "only-outside-the-store"
CLIMBS: Final = (
    "..",
    "../../secret.txt",
    "..%2f..%2fsecret.txt",
    "%2e%2e/%2e%2e/secret.txt",
    "%252e%252e%252fsecret.txt",
    "..%5c..%5csecret.txt",
    "....//....//secret.txt",
    "%2fetc%2fpasswd",
    "/etc/passwd",
    "model/../../secret.txt",
    "model%00.txt",
    "%ff%fe",
    "file:%2f%2f%2fetc%2fpasswd",
    "~root",
    "x" * 4000,
)
STREAMS: Final = "/events"
"""They never end: what a name is to them is the same function's business as everywhere."""


NONE_OF: Final = {"token", "notification"}
"""Parts of addresses that name a row, and of which there is none here."""


@pytest.fixture(scope="module")
def home(promoted_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with something of every kind, and what must not be shown beside it."""
    place = tmp_path_factory.mktemp("climbs") / "within"
    promoted_models.copied(promoted_home, place)
    for outside in (place, place.parent):
        (outside / "secret.txt").write_text(SENTINEL)
    return place / ".arl"


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with api_over(home, allow_local=True) as made:
        CampaignLog(service_of(made).ledger, "live").add(*begun("live"))
        yield made


@pytest.fixture(scope="module")
def real(client: TestClient) -> dict[str, str]:
    """What there is, for the other parts of an address."""
    family = client.get("/api/v1/promotions").json()["items"][0]
    trial = client.get(f"/api/v1/studies/{family['study']}/trials").json()["items"][0]["id"]
    one = client.get(f"/api/v1/trials/{trial}").json()
    return {
        "study": family["study"],
        "trial": trial,
        "candidate": one["candidate"],
        "attempt": one["attempts"][0]["id"],
        "digest": one["artifacts"][0]["digest"],
        "chain": family["study"],
        "family": family["family"],
        "model": promoted_models.MODEL,
        "campaign": "live",
        "number": "2",
        "mount": "artifact",
        "path": "model",
    }


def test_there_is_something_for_every_part_of_an_address(
    client: TestClient, real: dict[str, str]
) -> None:
    app: Any = client.app
    parts = {part for path in app.openapi()["paths"] for part in re.findall(r"\{(\w+)\}", path)}
    assert parts == real.keys() | NONE_OF
    for address in ("models/{model}/incumbents/{number}/evidence.tar", "campaigns/{campaign}"):
        assert client.get(f"/api/v1/{address.format(**real)}").status_code == 200, address


def addresses(client: TestClient, real: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Every operation with a climb in one part of its address, the others being real."""
    app: Any = client.app
    for path, item in app.openapi()["paths"].items():
        parts = re.findall(r"\{(\w+)\}", path)
        if path.endswith(STREAMS):
            continue
        for method in item:
            for hostile in parts:
                for climb in CLIMBS:
                    values = {**dict.fromkeys(parts, "x"), **real, hostile: climb}
                    yield method.upper(), re.sub(r"\{(\w+)\}", lambda m: values[m[1]], path)  # noqa: B023


def test_no_address_leads_out_of_the_store(
    client: TestClient, real: dict[str, str], home: Path
) -> None:
    asked, wrong = 0, []
    for method, address in addresses(client, real):
        body = {"json": {}} if method in ("POST", "PUT", "PATCH") else {}
        answer = client.request(method, address, follow_redirects=False, **body)  # type: ignore[arg-type]  # of the client
        asked += 1
        said = answer.content
        shows = SENTINEL.encode() in said or b"root:x:" in said or b"Traceback" in said
        if answer.status_code >= 500 or shows or str(home).encode() in said:
            wrong.append((method, address[:200], answer.status_code, said[:200]))
    assert wrong == []
    assert asked > 1000


@pytest.mark.parametrize("climb", CLIMBS)
def test_no_parameter_of_a_query_leads_out_of_the_store(
    client: TestClient, real: dict[str, str], home: Path, climb: str
) -> None:
    app: Any = client.app
    for path, item in app.openapi()["paths"].items():
        names = [
            p["name"] for p in item.get("get", {}).get("parameters", ()) if p["in"] == "query"
        ]
        if not names or path.endswith(STREAMS):
            continue
        address = re.sub(r"\{(\w+)\}", lambda m: real.get(m[1], "x"), path)
        for name in names:
            answer = client.get(f"{address}?{name}={climb.replace('&', '')}")
            assert answer.status_code < 500, (address, name)
            assert SENTINEL not in answer.text
            assert str(home) not in answer.text


def test_no_name_in_a_tree_that_is_sent_leads_out_of_the_store(
    client: TestClient, home: Path
) -> None:
    for climb in ("../secret.txt", "/etc/passwd", "a/../../b", "a\u0000b", "..", ""):
        body = {"files": [{"path": climb, "size": 0, "digest": "e3b0c442" + "0" * 56}]}
        answer = client.put("/api/v1/trees/" + "a" * 64, content=json.dumps(body))
        assert answer.status_code == 422, climb
    assert {p.read_text() for p in home.parent.glob("*.txt")} == {SENTINEL}
