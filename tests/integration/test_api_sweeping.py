"""What requests left unfinished is taken away in time, and never what is in progress."""

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controller.api.sweeping import KEYS_KEPT_S, UPLOADS_KEPT_S, sweep, sweeping_beside
from ledger.verify import verify_ledger
from tests.api_runs import api_over, service_of
from tests.api_studies import sha256

DATA = bytes(range(256)) * 40


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with api_over(tmp_path / ".arl") as made:
        yield made


def send(client: TestClient, first: int, last: int) -> Any:
    return client.put(
        f"/api/v1/blobs/{sha256(DATA)}",
        content=DATA[first : last + 1],
        headers={
            "Content-Range": f"bytes {first}-{last}/{len(DATA)}",
            "Content-Type": "application/octet-stream",
        },
    )


def offset(client: TestClient) -> str:
    return str(client.head(f"/api/v1/blobs/{sha256(DATA)}").headers["upload-offset"])


def uploads(client: TestClient) -> Path:
    return Path(service_of(client).settings.home) / "uploads"


def test_a_cut_upload_is_kept_for_a_day_after_its_last_piece(client: TestClient) -> None:
    service, began = service_of(client), time.time()
    send(client, 0, 99)
    sweep(service, now=began + UPLOADS_KEPT_S - 60)
    assert offset(client) == "100"
    sweep(service, now=time.time() + UPLOADS_KEPT_S + 1)
    assert offset(client) == "0"
    assert list(uploads(client).rglob("*.part")) == []
    send(client, 0, 99)
    assert send(client, 100, len(DATA) - 1).json()["is_complete"]
    sweep(service, now=time.time() + 2 * UPLOADS_KEPT_S)
    assert client.head(f"/api/v1/blobs/{sha256(DATA)}").status_code == 200


def test_an_upload_in_progress_is_never_swept_however_old(client: TestClient) -> None:
    send(client, 0, 99)
    (part,) = uploads(client).rglob("*.part")
    os.utime(part, (0, 0))
    with part.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sweep(service_of(client), now=time.time())
        assert part.exists()
    sweep(service_of(client), now=time.time())
    assert not part.exists()


def test_a_piece_that_waited_while_its_part_was_swept_is_not_lost(client: TestClient) -> None:
    import threading

    send(client, 0, 99)
    (part,) = uploads(client).rglob("*.part")
    answers: list[Any] = []
    with part.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        sender = threading.Thread(target=lambda: answers.append(send(client, 0, 199)))
        sender.start()
        time.sleep(0.3)  # it waits for the lock of a file that is now deleted under it
        part.unlink()
    sender.join(20)
    assert answers[0].json()["received"] == 200
    assert offset(client) == "200"


def test_what_a_dead_submission_staged_goes_and_a_live_ones_stays(client: TestClient) -> None:
    old, new = uploads(client) / "staged-old", uploads(client) / "staged-new"
    for directory in (old, new):
        (directory / "tree").mkdir(parents=True)
    os.utime(old, (0, 0))
    sweep(service_of(client), now=time.time())
    assert (old.exists(), new.exists()) == (False, True)


def test_a_key_is_forgotten_after_a_month(client: TestClient) -> None:
    def make(name: str, **headers: str) -> Any:
        body = {"name": name, "scopes": ["admin"]}
        return client.post("/api/v1/tokens", json=body, headers=headers)

    admin = {"Authorization": f"Bearer {make('first').json()['token']}"}
    key = {**admin, "Idempotency-Key": "k"}
    made = make("second", **key).json()["id"]
    sweep(service_of(client), now=time.time() + KEYS_KEPT_S - 60)
    assert make("second", **key).json()["id"] == made
    sweep(service_of(client), now=time.time() + KEYS_KEPT_S + 60)
    assert make("second", **key).json()["id"] != made
    assert verify_ledger(service_of(client).ledger, None) == []


def test_it_sweeps_as_soon_as_the_server_starts(client: TestClient) -> None:
    send(client, 0, 99)
    (part,) = uploads(client).rglob("*.part")
    os.utime(part, (0, 0))
    with sweeping_beside(service_of(client)):
        until = time.monotonic() + 20
        while part.exists() and time.monotonic() < until:
            time.sleep(0.02)
    assert not part.exists()
