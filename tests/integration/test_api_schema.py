"""What the OpenAPI document promises, asked of a running server by a program that tries to
break it: every check of schemathesis, by cases of its own, at random, and in sequences."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.api.tokens import Scope, give_token_of
from controller.client import Client
from ledger.database import open_ledger
from tests.acceptance.shell_study import drive, open_service, settings, submit
from tests.api_runs import api_over
from tests.e2e_studies import fill_awkward
from tests.serve_runs import Served, served

CONFIG = """
max-stream-events = 2
request-timeout = 20
parameters = { "query.wait" = 0, "query.wait_s" = 0 }
continue-on-failure = true

[generation]
deterministic = true
database = "none"

# What JSON Schema cannot say is refused with 422: a parameter that this study has not, the cursor
# of another list, an idempotency key that another request used, a study without an objective.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 422, 429, "5xx"]
"""


# Whoever revokes the token that it asks with is told nothing more than 401.
SPARED = """
[[operations]]
include-path = "/api/v1/tokens/{token}"
parameters = { "path.token" = "%s" }
"""


@dataclass(frozen=True)
class Attacked:
    """A server, a token for everything, and the id of another that may be revoked."""

    server: Served
    token: str
    spare: str


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    """Over a completed study."""
    service = open_service(tmp_path)
    study_id = submit(service, tmp_path, budget={"trials": 2})
    assert drive(service, study_id).state == "completed"
    service.close()
    with _served_with_tokens(tmp_path) as made:
        yield made


@pytest.fixture
def attacked_with_all(tmp_path: Path) -> Iterator[Attacked]:
    """Over every awkward study, with plots, model calls and a promotion to ask for."""
    fill_awkward(tmp_path, trials=300)
    with _served_with_tokens(tmp_path, "--no-worker") as made:  # nobody takes up what is only rows
        yield made


@contextmanager
def _served_with_tokens(directory: Path, *options: str) -> Iterator[Attacked]:
    ledger = open_ledger(settings(directory).ledger_url, create=False)
    made = [
        give_token_of(ledger, name=name, scopes=[Scope.ADMIN], expires_in_s=None, actor="test")
        for name in ("tests", "spare")
    ]
    ledger.close()
    with served(directory / ".arl", *options) as running:
        yield Attacked(running, token=made[0][1], spare=made[1][0].token_id)


def attack(attacked: Attacked, *options: str) -> str:
    """What schemathesis found; it exits with 0 only where that is nothing."""
    server = attacked.server
    config = CONFIG + SPARED % attacked.spare
    (server.home.parent / "schemathesis.toml").write_text(config, encoding="utf-8")
    ran = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            *("--config-file", "schemathesis.toml", "run"),
            f"{server.url}/api/v1/openapi.json",
            *("--header", f"Authorization: Bearer {attacked.token}"),
            *("--checks", "all", "--no-color", "--warnings", "off"),
            *options,
        ],
        cwd=server.home.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout[-20_000:]}\n{ran.stderr}\n{server.log()[-4000:]}"
    with Client(server.url, token=attacked.token) as client:
        list(client.studies())  # the token it asked with was good to the end
    return ran.stdout


def test_the_api_keeps_what_its_openapi_document_promises(attacked: Attacked) -> None:
    # The stream of all studies is silent over a quiet ledger: waiting for it proves nothing.
    quick = ("--max-examples", "1", "--phases", "examples,coverage,stateful")
    told = attack(attacked, *quick, "--exclude-path", "/api/v1/events")
    assert "Selected: " in told
    assert "No issues found" in told


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_api_keeps_its_promises_under_many_requests(attacked_with_all: Attacked) -> None:
    told = attack(attacked_with_all, "--max-examples", "60")
    print(told[-2000:])
    assert "No issues found" in told


def test_an_address_says_which_methods_it_has_over_all_its_routes(tmp_path: Path) -> None:
    with api_over(tmp_path) as client:
        for path, methods in (
            ("studies", "GET, HEAD, POST"),
            ("studies/nightly", "GET, HEAD, PATCH"),
            ("blobs/missing", "POST"),
            (f"blobs/{'0' * 64}", "HEAD, PUT"),
        ):
            answer = client.delete(f"/api/v1/{path}")
            assert (answer.status_code, answer.headers["allow"]) == (405, methods), path
            assert answer.json()["code"] == "no_such_method"
        assert client.get("/api/v1/plans/study").headers["allow"] == "POST"
        nowhere = client.get("/api/v1/nowhere")
        assert (nowhere.status_code, nowhere.json()["code"]) == (404, "not_found")


def test_what_is_wrong_shows_before_the_first_byte_of_a_download(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    study_id = submit(service, tmp_path, budget={"trials": 1})
    drive(service, study_id)
    service.close()
    with api_over(tmp_path / ".arl") as client:
        base = f"/api/v1/studies/{study_id}/trials"
        refused = client.get(f"{base}.csv", params={"where": "value>=adam"})
        assert refused.status_code == 422, refused.text
        trial = client.get(base).json()["items"][0]["id"]
        left = client.get(f"/api/v1/trials/{trial}/artifacts").json()
        digest = re.findall(r"[0-9a-f]{64}", json.dumps(left))[0]
        missing = client.get(f"/api/v1/artifacts/{digest}/{'0' * 900}")
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
