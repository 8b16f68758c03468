"""Webhooks of whole studies: a killed worker, dead and hanging receivers, the secret."""

import os
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from controller.worker.loop import Callbacks, Worker
from controller.worker.notifier import Notifier
from ledger.notification_records import Notification
from ledger.notifications import page_of_notifications
from ledger.records import CommandVerb
from ledger.states import StudyState
from tests.acceptance.lab import Lab, train
from tests.webhook_receiver import TAKES, receiving

SECRET = "c4n4ry-of-the-webhooks"
WAITING = 'until [ -e "${ARL_OUTPUT%/.arl/*}/go" ]; do sleep 0.02; done; '
EVENTS = ["candidate_kept", "study_completed", "budget_exhausted", "study_cancelled"]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def told(lab: Lab) -> list[Notification]:
    """The oldest first."""
    with lab.service() as service, service.ledger.read() as session:
        return sorted(page_of_notifications(session).items, key=lambda one: one.seq)


def test_a_worker_killed_between_delivery_and_record_sends_the_same_id_again(lab: Lab) -> None:
    port = free_port()
    notify = [{"webhook": f"http://127.0.0.1:{port}/", "on": EVENTS}]
    study_id = lab.submit(notify=notify, program=train(every=WAITING), budget={"trials": 3})
    # Before the receiver's thread is there: a process is forked without threads only.
    killed = lab.worker(study_id)

    def kills_the_sender(request: BaseHTTPRequestHandler) -> None:
        os.kill(killed.pid, signal.SIGKILL)

    with receiving(kills_the_sender, TAKES, port=port) as receiver:
        (lab.base / "go").touch()
        assert killed.join() == -signal.SIGKILL
        (taken,) = receiver.got
        assert [(one.state, one.tries) for one in told(lab)][:1] == [("waiting", 0)]
        began = time.monotonic()
        assert lab.drive(study_id).state is StudyState.COMPLETED
        assert time.monotonic() - began < 20
        found = receiver.got[1:]
    assert (found[0].id, found[0].body) == (taken.id, taken.body)
    seqs = [got.document["data"]["seq"] for got in found]
    assert seqs == sorted(set(seqs))
    assert [got.event for got in found][-2:] == ["budget_exhausted", "study_completed"]
    assert {(str(one.state), one.tries) for one in told(lab)} == {("delivered", 1)}


def test_a_worker_killed_before_it_noticed_the_end_leaves_that_to_the_next_one(lab: Lab) -> None:
    port = free_port()
    notify = [{"webhook": f"http://127.0.0.1:{port}/", "on": ["study_completed"]}]
    study_id = lab.submit(notify=notify, budget={"trials": 1})
    with lab.service() as service:

        def ends(driver: Any) -> None:
            if driver.view.study.state is StudyState.COMPLETED:
                raise KeyboardInterrupt  # nothing after the commit is reached

        with pytest.raises(KeyboardInterrupt):
            Worker(service, Callbacks(on_tick=ends)).run(only=[study_id])
    lab.drive(lab.submit(name="another", budget={"trials": 1}))
    assert [str(one.state) for one in told(lab)] == ["waiting"]
    with receiving(port=port) as receiver:
        time.sleep(2.5)  # until its second try is due
        lab.drive(lab.submit(name="third", budget={"trials": 1}))
        assert receiver.events() == ["study_completed"]


def test_a_study_does_not_notice_that_its_receiver_is_down(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARL_SECRET_HOOKS", SECRET)
    port = free_port()
    began = time.monotonic()
    alone = lab.run(name="alone", budget={"trials": 4})
    alone_s = time.monotonic() - began
    one = {"webhook": f"http://127.0.0.1:{port}/", "secret": "ARL_SECRET_HOOKS", "on": EVENTS}
    began = time.monotonic()
    study = lab.run(name="told", budget={"trials": 4}, notify=[one])
    assert time.monotonic() - began < alone_s + 8
    kinds = [[e.kind for e in lab.entries(found.id)] for found in (alone, study)]
    assert kinds[0] == kinds[1]
    waiting = told(lab)
    assert {str(one.state) for one in waiting} == {"waiting"}
    assert waiting[0].detail == "Connection refused"

    with receiving(port=port) as receiver, lab.service() as service:
        notifier = Notifier(service, "elsewhere/1/1")
        notifier.start()
        found = receiver.wait_for(len(waiting))
        notifier.end(5)
    assert [got.document["data"]["seq"] for got in found] == [one.seq for one in waiting]
    assert all(got.headers["webhook-signature"].startswith("v1,") for got in found)
    assert _files_with(SECRET.encode(), lab.base) == []
    assert not any(SECRET in got.body.decode() for got in found)


def _files_with(word: bytes, root: Path) -> list[str]:
    """Below `root` are the ledger, logs, attempts with their environments, artifacts."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.name == "ledger.db" for path in files)
    return [str(path) for path in files if word in path.read_bytes()]


def test_a_receiver_that_hangs_holds_up_an_end_no_longer_than_one_wants(lab: Lab) -> None:
    released = threading.Event()

    def hangs(request: BaseHTTPRequestHandler) -> None:
        released.wait(60)

    with receiving(hangs) as receiver:
        notify = [{"webhook": receiver.url, "on": ["study_completed"]}]
        study_id = lab.submit(notify=notify, budget={"trials": 1})
        with lab.service() as service:
            worker = Worker(service)
            thread = threading.Thread(target=worker.run, args=([study_id],))
            thread.start()
            receiver.wait_for(1)
            time.sleep(0.3)
            assert thread.is_alive()  # it gives the last message its try
            worker.stop()
            thread.join(8)
            assert not thread.is_alive()
        released.set()
    assert [(str(one.state), one.tries, one.lease_owner) for one in told(lab)] == [
        ("waiting", 0, None)
    ]


def test_a_command_that_a_worker_here_carries_out_is_told_too(lab: Lab) -> None:
    from controller.cli import requests

    with receiving() as receiver:
        study_id = lab.submit(notify=[{"webhook": receiver.url, "on": EVENTS}])
        with lab.service() as service:
            requests.ask(service, study_id, CommandVerb.CANCEL, {})
        assert receiver.events() == ["study_cancelled"]
