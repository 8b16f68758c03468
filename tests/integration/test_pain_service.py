"""Reported pain that a service can cause: retries, numbers JSON has no word for, clocks."""

import json
import re
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.shell_study import document, drive, open_service, submit
from tests.api_server import api_server

API = "/api/v1"
SAID = (
    '{\\"step\\": 1, \\"metric\\": \\"loss\\", \\"value\\": \\"nan\\"}\\n'
    '{\\"step\\": 2, \\"metric\\": \\"loss\\", \\"value\\": \\"inf\\"}'
)
ODD = (
    'x=$(sed -n \'s/.*"x": *\\([0-9.e-]*\\).*/\\1/p\' "$ARL_INPUTS/artifact/params.json"); '
    'case "$x" in 0.1) ;; *) if [ "$ARL_SPLIT" != none ]; then '
    'echo "{\\"metrics\\": {\\"score\\": Infinity}}" >&3; exit 0; fi ;; esac; '
    'echo "{\\"metrics\\": {\\"score\\": $x}}" >&3'
)
"""Scores everything but the baseline with infinity."""


def strict(text: str) -> Any:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of a server over two studies: `odd` reported what is no number, `endless` scored it."""
    base = tmp_path_factory.mktemp("pain")
    service = open_service(base)
    train = document()["program"]["argv"][2]
    program = {
        "kind": "command",
        "argv": ["/bin/sh", "-c", f'printf "{SAID}\\n" >>"$ARL_REPORTS"; {train}'],
    }
    drive(service, submit(service, base, name="odd", program=program, budget={"trials": 3}))
    evaluator = {**document()["evaluator"], "argv": ["/bin/sh", "-c", ODD]}
    endless = submit(
        service, base, name="endless", evaluator=evaluator, budget={"trials": 3}, parallel=1
    )
    drive(service, endless)
    with (
        api_server(service) as url,
        httpx.Client(base_url=url, timeout=20, trust_env=False) as made,
    ):
        yield made
    service.close()


@pytest.mark.parametrize("study", ["odd", "endless"])
def test_no_answer_of_the_service_is_anything_but_json(client: httpx.Client, study: str) -> None:
    trials = strict(client.get(f"{API}/studies/{study}/trials").text)["items"]
    named = {"study": study, "chain": trials[0]["study"], "trial": trials[-1]["id"]}
    named |= {"number": str(trials[-1]["number"]), "candidate": trials[-1]["candidate"]}
    paths = strict(client.get(f"{API}/openapi.json").text)["paths"]
    seen = 0
    for path, methods in paths.items():
        asked = re.sub(r"\{(\w+)\}", lambda m: named.get(m[1], "none"), path)
        if "get" not in methods or asked == f"{API}/events":
            continue
        answer = client.get(asked)
        assert answer.status_code < 500, (asked, answer.text)
        if "json" in answer.headers["content-type"] and "ndjson" not in asked:
            seen += 1
            for line in answer.text.splitlines():
                strict(line)
    assert seen > 30


def test_a_curve_of_what_is_no_number_is_whole_and_says_where(client: httpx.Client) -> None:
    trial = client.get(f"{API}/studies/odd/trials").json()["items"][0]["id"]
    (curve,) = strict(client.get(f"{API}/trials/{trial}/values").text)["curves"]
    assert curve["values"] == [None, None]
    assert curve["non_finite"] == {"0": "nan", "1": "inf"}


def test_an_infinite_score_is_never_the_best_and_the_study_goes_on(client: httpx.Client) -> None:
    study = strict(client.get(f"{API}/studies/endless").text)
    assert study["state"] == "completed"
    assert study["best"] is None
    trials = client.get(f"{API}/studies/endless/trials", params={"kind": "search"}).json()["items"]
    assert len(trials) == 3
    assert {trial["state"] for trial in trials} == {"failed"}
    assert {trial["value"] for trial in trials} == {None}
    history = strict(client.get(f"{API}/studies/endless/plots/history").text)
    assert "Infinity" not in json.dumps(history)


def test_an_answer_that_was_lost_is_given_again_and_nothing_happens_twice(
    client: httpx.Client,
) -> None:
    body = json.dumps({"params": {"x": 0.5}}).encode()
    place = urlsplit(str(client.base_url))
    head = (
        f"POST {API}/studies/odd/trials HTTP/1.1\r\nHost: {place.netloc}\r\n"
        "Content-Type: application/json\r\nIdempotency-Key: lost\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()

    def waiting() -> int:
        return len(client.get(f"{API}/studies/odd").json()["pending_commands"])

    for _ in range(3):
        with socket.create_connection((place.hostname or "", place.port or 0)) as cut:
            cut.sendall(head + body)  # and goes without having read the answer
    answers = [
        client.post(
            f"{API}/studies/odd/trials",
            content=body,
            headers={"Content-Type": "application/json", "Idempotency-Key": "lost"},
        )
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert len({answer.json()["command"] for answer in answers}) == 1
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert waiting() == 1
    other = client.post(
        f"{API}/studies/odd/trials",
        json={"params": {"x": 0.6}},
        headers={"Idempotency-Key": "lost"},
    )
    assert other.status_code == 422
    assert waiting() == 1


def test_what_a_user_did_wrong_is_never_the_servers_error(client: httpx.Client) -> None:
    for path, body in (
        ("studies", {"study": {}}),
        ("studies", {"study": {"name": "\ud800", "space": []}}),
        ("studies/odd/trials", {"params": {"x": "\x00"}}),
        ("studies/odd/trials", {"patch": "no patch"}),
        ("studies/odd/extend", {"trials": {"by": 1e308}}),
        ("studies/odd/extend", {"trials": None}),
        ("studies/odd/ask", {"client": "\x00"}),
        ("plans/study", {"study": {"name": 7, "budget": [[[]]]}}),
    ):
        answer = client.post(f"{API}/{path}", content=json.dumps(body), headers=JSON)
        assert answer.status_code < 500, (path, body, answer.text)
    patched = client.patch(f"{API}/studies/odd", json={"parallel": 0})
    assert patched.status_code == 422
    assert "parallel" in patched.json()["errors"][0]["field"]


JSON = {"Content-Type": "application/json"}


def test_every_time_is_the_servers_with_its_offset(client: httpx.Client) -> None:
    trial = client.get(f"{API}/studies/odd/trials").json()["items"][0]
    for name in ("created_at", "started_at", "ended_at"):
        at = datetime.fromisoformat(trial[name])
        assert at.utcoffset() is not None
        assert at.astimezone(UTC).isoformat(timespec="milliseconds") == trial[name]
    ended, started = (datetime.fromisoformat(trial[k]) for k in ("ended_at", "started_at"))
    assert trial["wall_s"] == pytest.approx((ended - started).total_seconds(), abs=0.002)
    said = client.get("/healthz").headers["date"]
    assert said.endswith("GMT")


def test_a_failed_change_and_why_it_failed_stay_to_be_asked_for(client: httpx.Client) -> None:
    failed = client.get(f"{API}/studies/endless/trials", params={"state": "failed"}).json()[
        "items"
    ]
    detail = client.get(f"{API}/trials/{failed[0]['id']}").json()
    assert detail["reason"]
    assert detail["detail"]
    assert detail["attempts"][0]["kind"] == "train"
    assert detail["candidate"]
    assert client.get(f"{API}/trials/{detail['id']}/logs").status_code == 200
