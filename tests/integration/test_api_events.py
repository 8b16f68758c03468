"""Events: pages, and streams that lose nothing and repeat nothing, whoever cuts them."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from controller.api import events
from controller.client import Client
from controller.settings import read_settings
from controller.wiring import Service, build_service
from ledger.records import Verdict
from ledger.states import Reason, StudyState
from tests.api_runs import client_of, token
from tests.api_server import api_server, following
from tests.ledger_builders import Driven, driven

STUDY = "/api/v1/studies/s1/events"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = build_service(read_settings({"ARL_HOME": str(tmp_path)}), create=True)
    yield made
    made.close()


@pytest.fixture
def study(service: Service) -> Driven:
    made = driven(service.ledger)
    made.run_study()
    return made


def head_seq(study: Driven) -> int:
    from ledger import reads

    with study.ledger.read() as session:
        return reads.get_study(session, study.study_id).head_seq


def test_pages_hold_each_event_once_in_order(service: Service, study: Driven) -> None:
    study.whole_trial(0, 0.5, verdict=Verdict.KEEP)
    with client_of(service) as client:
        seen, since = [], 0
        while True:
            page = client.get(STUDY, params={"since": since, "limit": 3}).json()
            if not page["items"]:
                break
            seen += [event["seq"] for event in page["items"]]
            since = page["next_since"]
        assert seen == list(range(1, head_seq(study) + 1))
        assert page["head_seq"] == since
        first = client.get(STUDY, params={"limit": 1}).json()["items"][0]
        assert first["kind"] == "study_submitted"
        assert first["at"].endswith("+00:00")


def test_a_stream_that_is_cut_resumes_where_it_ended(service: Service, study: Driven) -> None:
    done = threading.Event()

    def work() -> None:
        for number in range(12):
            study.whole_trial(number, 0.5 + number)
            time.sleep(0.02)
        done.set()

    worker = threading.Thread(target=work)
    seen: list[int] = []
    with api_server(service) as url:
        worker.start()
        last = "0"
        while not done.is_set() or seen[-1] < head_seq(study):
            with following(url + STUDY, Last_Event_ID=last) as stream:
                for _ in range(7):  # and then the connection is cut
                    last, data = stream.next()
                    assert json.loads(data)["seq"] == int(last)
                    seen.append(int(last))
                    if done.is_set() and seen[-1] >= head_seq(study):
                        break
        worker.join()
    assert seen == list(range(1, head_seq(study) + 1))


def test_news_comes_within_a_second_and_all_streams_share_one_look(
    service: Service, study: Driven
) -> None:
    since = head_seq(study)
    with api_server(service) as url:
        with (
            following(f"{url}{STUDY}?since={since}") as a,
            following(f"{url}{STUDY}?since={since}") as b,
        ):
            wait_for_streams(url, 2)
            began = time.monotonic()
            study.move(StudyState.RUNNING, StudyState.PAUSED, Reason.PAUSED_BY_OPERATOR)
            told = [json.loads(stream.next()[1]) for stream in (a, b)]
            assert time.monotonic() - began < 5  # a second, and what a busy machine adds
        assert [event["seq"] for event in told] == [since + 1] * 2
        assert told[0]["payload"]["new"] == "paused"
        wait_for_streams(url, 0)


def wait_for_streams(url: str, count: int) -> None:
    until = time.monotonic() + 20
    while httpx.get(f"{url}/api/v1/system", trust_env=False).json()["streams"] != count:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_place_beyond_the_end_is_refused(service: Service, study: Driven) -> None:
    with client_of(service) as client:
        beyond = {"since": head_seq(study) + 1}
        for accept in ("application/json", "text/event-stream"):
            found = client.get(STUDY, params=beyond, headers={"Accept": accept})
            assert (found.status_code, found.json()["code"]) == (409, "conflict")
        for place in ("x", "-1", "1.5", "9" * 20, "\u0661"):
            headers = {"Accept": "text/event-stream", "Last-Event-ID": place.encode()}
            assert client.get(STUDY, headers=headers).status_code == 422
        assert client.get("/api/v1/studies/none/events").status_code == 404


def test_there_are_at_most_so_many_streams(service: Service, study: Driven) -> None:
    with api_server(service, streams=2) as url:
        with following(url + STUDY), following(url + "/api/v1/events"):
            wait_for_streams(url, 2)
            refused = httpx.get(
                url + STUDY, headers={"Accept": "text/event-stream"}, trust_env=False
            )
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many")
            assert refused.headers["retry-after"]
            assert httpx.get(url + STUDY, trust_env=False).status_code == 200
        until = time.monotonic() + 20
        while True:  # both were let go
            try:
                with following(url + STUDY) as stream:
                    assert stream.next()[0] == "1"
                    break
            except httpx.HTTPStatusError:
                assert time.monotonic() < until
                time.sleep(0.05)


def test_a_client_that_finds_no_room_for_its_stream_waits_for_some(
    service: Service, study: Driven
) -> None:
    seen: list[int] = []

    def follow() -> None:
        with Client(url) as client:
            seen.extend(event.seq for event in client.events("s1"))

    with api_server(service, streams=1) as url:
        follower = threading.Thread(target=follow)
        with following(url + STUDY) as stream:
            stream.next()
            follower.start()
            time.sleep(1)
            assert follower.is_alive()
            assert seen == []
        study.move(StudyState.RUNNING, StudyState.CANCELLED, Reason.CANCELLED_BY_OPERATOR)
        follower.join(20)
        assert not follower.is_alive()
    assert seen == list(range(1, head_seq(study) + 1))


def test_a_quiet_stream_is_kept_alive_and_ends_with_its_token(
    service: Service, study: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.1)
    with client_of(service) as client:
        reader, admin = token(client, "read"), token(client, "admin")
    with api_server(service) as url:
        address = f"{url}{STUDY}?since={head_seq(study)}"
        with following(address, **reader) as stream:
            time.sleep(0.5)
            study.move(StudyState.RUNNING, StudyState.PAUSED, Reason.PAUSED_BY_OPERATOR)
            stream.next()
            assert stream.comments >= 2
            listed = httpx.get(f"{url}/api/v1/tokens", headers=admin, trust_env=False).json()
            mine = next(found["id"] for found in listed["items"] if found["name"] == "read")
            httpx.delete(f"{url}/api/v1/tokens/{mine}", headers=admin, trust_env=False)
            with pytest.raises((EOFError, httpx.RemoteProtocolError)):
                stream.next()


def test_a_stream_with_much_to_tell_ends_with_its_token_too(
    service: Service, study: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 2.0)
    with client_of(service) as client:
        reader, admin = token(client, "read"), token(client, "admin")
    done = threading.Event()

    def work() -> None:
        number = 0
        while not done.wait(0.05):
            study.record(study.proposed(number))
            number += 1

    worker = threading.Thread(target=work)
    with api_server(service) as url, following(url + STUDY, **reader) as stream:
        worker.start()
        try:
            stream.next()
            listed = httpx.get(f"{url}/api/v1/tokens", headers=admin, trust_env=False).json()
            mine = next(found["id"] for found in listed["items"] if found["name"] == "read")
            httpx.delete(f"{url}/api/v1/tokens/{mine}", headers=admin, trust_env=False)
            with pytest.raises((EOFError, httpx.RemoteProtocolError)):
                next(place for place, _ in iter(stream.next, None) if int(place) > 200)
            assert stream.comments == 0
        finally:
            done.set()
            worker.join()


def test_a_client_that_does_not_read_is_dropped(
    service: Service, study: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SEND_PATIENCE_S", 0.3)
    for number in range(50):
        study.record(study.proposed(number, params={"x": "y" * 400_000}))
    with api_server(service) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = f"GET {STUDY} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            wait_for_streams(url, 0)


def test_all_studies_are_told_in_one_stream(service: Service, study: Driven) -> None:
    other = driven(service.ledger, "s2")
    with api_server(service) as url, following(url + "/api/v1/events") as stream:
        wait_for_streams(url, 1)
        other.run_study()
        told = json.loads(stream.next()[1])["chains"]
    assert [chain["chain"] for chain in told] == ["s2"]
    assert told[0]["state"] in ("preparing", "running")
