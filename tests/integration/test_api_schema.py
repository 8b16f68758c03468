"""What the OpenAPI document promises: of every answer over a ledger with one of everything, and
asked of a running server by a program that tries to break it: every check of schemathesis, by
cases of its own, at random, and in sequences."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import jsonschema_rs
import pytest

from controller.api.tokens import Scope, give_token_of
from controller.client import Client
from ledger.database import open_ledger
from tests.acceptance.shell_study import drive, open_service, settings, submit
from tests.api_crawl import Crawl
from tests.api_runs import api_over
from tests.api_server import api_server
from tests.serve_runs import Served, served
from tests.whole_ledger import CAMPAIGN, MODEL, fill_whole

CONFIG = """
max-stream-events = 2
request-timeout = 20
continue-on-failure = true

[generation]
deterministic = true
database = "none"

# What JSON Schema cannot say is refused with 422: a parameter that this study has not, the cursor
# of another list, an idempotency key that another request used, a study without an objective.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 422, 429, "5xx"]

[parameters]
"query.wait" = 0
"query.wait_s" = 0
"""


# In an address `{}` is text, and may be the name of a metric.
TEXTS = """
[[operations]]
include-path = "/api/v1/trials/{trial}/values"
checks.negative_data_rejection.enabled = false
"""


# Whoever revokes the token that it asks with is told nothing more than 401.
SPARED = """
[[operations]]
include-path = "/api/v1/tokens/{token}"
parameters = { "path.token" = "%s" }
"""


NAMED = (
    *("study", "trial", "candidate", "attempt", "family", "model", "campaign", "notification"),
    "digest",
)
"""Parameters of paths of which it asks, half of the time, for what there is: of names that it
makes up it learns only 404."""


@dataclass(frozen=True)
class Attacked:
    """A server, a token for everything, and the id of another that may be revoked."""

    server: Served
    token: str
    spare: str

    def known(self) -> str:
        """More of the configuration: what there is, for the parameters of paths."""
        bearer = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=self.server.url, headers=bearer, timeout=30) as client:
            crawl = Crawl(client, each=2)
            crawl.run()
        found: dict[str, list[str] | list[int]] = {name: crawl.found(name) for name in NAMED}
        found["chain"] = [*crawl.found("chain"), "service"]
        found["number"] = [0, 1, 2]
        chosen = "".join(
            f'"path.{name}" = {{ dictionary = "{name}", probability = 0.5 }}\n' for name in found
        )
        lists = "".join(
            f"[dictionaries.{name}]\nvalues = {json.dumps(values, ensure_ascii=False)}\n"
            for name, values in found.items()
        )
        return f"{chosen}\n{lists}"


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[Attacked]:
    """Over a completed study."""
    service = open_service(tmp_path)
    study_id = submit(service, tmp_path, budget={"trials": 2})
    assert drive(service, study_id).state == "completed"
    service.close()
    with _served_with_tokens(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a ledger with one of everything. To be copied."""
    directory = tmp_path_factory.mktemp("whole")
    fill_whole(directory, trials=300)
    return directory / ".arl"


def copied(home: Path, to: Path) -> None:
    """Without what its supervisor keeps."""
    shutil.copytree(home, to / ".arl", ignore=shutil.ignore_patterns("local"), symlinks=True)


@pytest.fixture
def attacked_with_all(whole: Path, tmp_path: Path) -> Iterator[Attacked]:
    """Over one of everything: plots, model calls, promotions, a campaign."""
    copied(whole, tmp_path)
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


def attack(attacked: Attacked, *options: str, known: str = "") -> str:
    """What schemathesis found; it exits with 0 only where that is nothing."""
    server = attacked.server
    config = CONFIG + known + TEXTS + SPARED % attacked.spare
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


def test_every_answer_is_what_the_document_says_of_it(whole: Path, tmp_path: Path) -> None:
    copied(whole, tmp_path)
    service = open_service(tmp_path)
    with (
        api_server(service) as url,
        httpx.Client(base_url=url, timeout=60, trust_env=False) as client,
    ):
        document = client.get("/api/v1/openapi.json").json()
        crawl = Crawl(client)
        answers = crawl.run()
    service.close()
    for one in answers:
        if one.is_json:
            content = document["paths"][one.operation]["get"]["responses"][str(one.status)]
            schema = {
                **content["content"][one.headers["content-type"]]["schema"],
                "components": document["components"],
            }
            for error in jsonschema_rs.iter_errors(schema, json.loads(one.content)):
                raise AssertionError(f"{one.address}: {error.message} at {error.instance_path}")
    assert crawl.unanswered() == set()
    shown = {one.address.rpartition("/")[2] for one in answers if one.status == 200}
    assert {MODEL, CAMPAIGN, "evidence", "evidence.tar", "check", "patch"} <= shown


def test_the_api_keeps_what_its_openapi_document_promises(attacked: Attacked) -> None:
    # The stream of all studies is silent over a quiet ledger: waiting for it proves nothing.
    quick = ("--max-examples", "1", "--phases", "examples,coverage,stateful")
    told = attack(attacked, *quick, "--exclude-path", "/api/v1/events")
    assert "Selected: " in told
    assert "No issues found" in told


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_api_keeps_its_promises_under_many_requests(attacked_with_all: Attacked) -> None:
    told = attack(attacked_with_all, "--max-examples", "60", known=attacked_with_all.known())
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
