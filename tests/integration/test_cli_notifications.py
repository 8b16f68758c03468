"""`arl notifications`: what it lists, what it sends again, and whom it notes for that."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.front import run
from controller.settings import read_settings
from controller.worker.noticing import Noticing
from ledger import writes
from ledger.audit import list_requests
from ledger.database import Ledger, open_ledger
from ledger.digests import sha256_hex
from ledger.notification_records import NotificationState, Tried
from tests.webhook_receiver import Receiver, receiving
from tests.webhook_studies import fails, told_study


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> Iterator[Ledger]:
    """With three studies that failed: what they have to tell was given up."""
    monkeypatch.setenv("ARL_HOME", str(tmp_path))
    monkeypatch.delenv("ARL_SERVER", raising=False)
    made = open_ledger(tmp_path / "ledger.db", create=True)
    for name in ("s1", "s2", "s3"):
        fails(told_study(made, name, {"webhook": f"{receiver.url}/path"}))
    Noticing(made, read_settings({})).look()
    with made.write() as session:
        for name in ("s1", "s2", "s3"):
            given_up = Tried(state=NotificationState.DEAD, status=None, detail="\x1b[31mno")
            writes.claim_notification(session, _id(name, receiver), "w", 60.0, gone=None)
            assert writes.settle_notification(session, _id(name, receiver), "w", given_up)
    yield made
    made.close()


def _id(study: str, receiver: Receiver) -> str:
    return f"{study}-3-{sha256_hex(f'{receiver.url}/path'.encode())[:8]}"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(["notifications", *arguments, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["notifications"]
    return found


def test_a_dead_letter_is_listed_and_sent_again_on_ones_word(
    ledger: Ledger, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {one["state"] for one in told(capsys)} == {"dead"}
    assert [one["study"] for one in told(capsys, "s2", "--state", "dead")] == ["s2"]
    assert told(capsys, "--state", "waiting") == []
    assert len(told(capsys, "--limit", "2")) == 2
    (sent,) = told(capsys, "--resend", _id("s2", receiver))
    assert (sent["state"], sent["tries"], sent["message"]) == ("delivered", 1, "s2-3")
    assert [got.id for got in receiver.got] == ["s2-3"]
    with ledger.read() as session:
        (asked,) = list_requests(session, after=0, limit=10)
    assert asked.request.subject == f"notification={_id('s2', receiver)}"
    assert asked.request.actor.startswith("cli:")


def test_all_dead_letters_are_sent_again_in_their_order(
    ledger: Ledger, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = told(capsys, "--resend-dead")
    assert {one["state"] for one in sent} == {"delivered"}
    assert sorted(got.id for got in receiver.got) == ["s1-3", "s2-3", "s3-3"]
    assert told(capsys, "--resend-dead") == []


def test_a_person_reads_a_table_in_which_nothing_is_obeyed(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["notifications"]) == 0
    out = capsys.readouterr().out
    assert "study_failed" in out
    assert "\\x1b" in out
    assert "\x1b[31m" not in out
    assert "/path" not in out


def test_what_cannot_be_meant_is_refused_in_one_line(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, code, said in (
        (["--resend", "nope"], 3, "no notification has the id nope"),
        (["nope"], 3, "nope"),
        (["s1", "--resend", "x"], 2, "leave STUDY and the others out"),
        (["--resend-dead", "--state", "dead"], 2, "leave --state out"),
        (["--state", "lost"], 2, "lost"),
        (["--limit", "0"], 2, "greater than or equal to 1"),
    ):
        assert run(["notifications", *arguments]) == code, arguments
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1, error
