"""Notifications from the ledger's entries to receivers that behave in every bad way."""

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from controller.decisions.notifying import Patience
from controller.settings import Settings, read_settings
from controller.worker import webhooks
from controller.worker.noticing import Noticing
from controller.worker.notifier import LEASE_S
from ledger import writes
from ledger.database import Ledger
from ledger.errors import NotFound
from ledger.notification_records import NotificationState
from ledger.notifications import (
    count_notifications,
    next_in_queues,
    page_of_notifications,
    unseen_studies,
)
from ledger.states import Reason
from ledger.tables import Base
from tests.architecture.project_sources import ROOT
from tests.ledger_builders import everything, submit
from tests.target_runs import wait_until
from tests.webhook_receiver import (
    TAKES,
    Got,
    answers,
    drips,
    drips_its_body,
    hangs,
    receiving,
    resets,
    sends_much,
)
from tests.webhook_studies import (
    SOON,
    all_of,
    fails,
    notifying,
    pauses,
    service_over,
    told_study,
    wait_for_states,
)

KEY = "whsec_a2V5IG9mIGJvdGggc2lkZXM="


def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_what_happens_is_told_in_its_order_each_once(ledger: Ledger, tmp_path: Path) -> None:
    with receiving() as receiver:
        study = told_study(ledger, "s1", {"webhook": f"{receiver.url}/hook"})
        pauses(study, Reason.DISK_FULL, Reason.TARGET_UNAVAILABLE, Reason.DISK_FULL)
        before = everything(ledger)
        with notifying(service_over(ledger, tmp_path)):
            first = receiver.wait_for(2)
            fails(told_study(ledger, "s2", {"webhook": receiver.url, "on": ["study_failed"]}))
            found = receiver.wait_for(3)
            wait_for_states(ledger, "delivered", "delivered", "delivered")
    assert [got.event for got in found] == ["study_paused", "study_paused", "study_failed"]
    assert [got.document["data"]["reason"] for got in first] == ["disk_full", "target_unavailable"]
    assert [got.path for got in found] == ["/hook", "/hook", "/"]
    assert {got.headers["content-type"] for got in found} == {"application/json"}
    after = everything(ledger)
    assert [row for row in after["entries"] if "'s1'" in row] == before["entries"]


def test_a_message_is_small_strict_json_with_the_facts(ledger: Ledger, tmp_path: Path) -> None:
    with receiving() as receiver:
        study = told_study(ledger, "s1", {"webhook": receiver.url})
        fails(study)
        service = service_over(ledger, tmp_path, ARL_PUBLIC_URL="https://arl.example.org/")
        with notifying(service):
            (got,) = receiver.wait_for(1)
    data = got.document["data"]
    assert got.document["type"] == "study_failed"
    assert got.document["timestamp"].endswith("+00:00")
    assert got.id == data["message"] == f"s1-{data['seq']}"
    assert data["link"] == "https://arl.example.org/studies/s1"
    assert (data["study"], data["name"], data["state"]) == ("s1", "demo", "failed")
    assert (data["reason"], data["best"], data["trials"]) == ("prepare_failed", None, 0)
    assert data["objective"] == {"metric": "loss", "direction": "minimize"}
    assert len(got.body) < 1000
    assert "webhook-signature" not in got.headers


def test_one_that_failed_is_sent_again_the_same(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    moved = answers(302, location="http://127.0.0.1:1/")
    with receiving(answers(500), answers(404), moved, resets, TAKES) as receiver:
        fails(told_study(sqlite_ledger, "s1", {"webhook": receiver.url}))
        often = replace(SOON, tries=9)
        with notifying(service_over(sqlite_ledger, tmp_path), patience=often):
            found = receiver.wait_for(5)
            (one,) = wait_for_states(sqlite_ledger, "delivered")
    assert len({(got.id, got.body) for got in found}) == 1
    assert (one.tries, one.status, one.detail) == (5, 204, "")


def test_a_redirect_is_not_followed_and_that_is_said(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    with receiving() as other, receiving(answers(307, location=f"{other.url}/x")) as receiver:
        fails(told_study(sqlite_ledger, "s1", {"webhook": receiver.url}))
        once = replace(SOON, tries=1)
        with notifying(service_over(sqlite_ledger, tmp_path), patience=once):
            (one,) = wait_for_states(sqlite_ledger, "dead")
        assert other.connections == 0
    assert one.detail.startswith("the receiver answered 307 and redirects are not followed")


def test_a_receiver_that_never_takes_it_leaves_a_dead_letter_that_can_be_sent_again(
    ledger: Ledger, tmp_path: Path
) -> None:
    with receiving(*[answers(503)] * SOON.tries, TAKES) as receiver:
        fails(told_study(ledger, "s1", {"webhook": receiver.url}))
        with notifying(service_over(ledger, tmp_path)):
            (dead,) = wait_for_states(ledger, "dead")
            assert (dead.tries, dead.status) == (SOON.tries, 503)
            assert dead.detail == "the receiver answered 503; given up after 4 tries"
            with ledger.write() as session:
                writes.resend_notification(session, dead.id)
            (one,) = wait_for_states(ledger, "delivered")
    assert len({got.id for got in receiver.got}) == 1
    assert (len(receiver.got), one.tries) == (SOON.tries + 1, 1)
    with ledger.write() as session, pytest.raises(NotFound, match="nope"):
        writes.resend_notification(session, "nope")


def test_a_receiver_that_is_gone_for_good_is_asked_once(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    with receiving(answers(410)) as receiver:
        fails(told_study(sqlite_ledger, "s1", {"webhook": receiver.url}))
        with notifying(service_over(sqlite_ledger, tmp_path)):
            wait_for_states(sqlite_ledger, "dead")
    assert len(receiver.got) == 1


def test_a_receiver_says_when_it_wants_to_be_asked_again(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    with receiving(answers(429, retry_after="2"), TAKES) as receiver:
        fails(told_study(sqlite_ledger, "s1", {"webhook": receiver.url}))
        with notifying(service_over(sqlite_ledger, tmp_path)):
            first, second = receiver.wait_for(2)
    assert second.at - first.at >= 1.9


def test_what_follows_the_head_of_an_answer_is_not_waited_for(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    began = time.monotonic()
    with receiving(sends_much, drips_its_body) as receiver:
        study = told_study(sqlite_ledger, "s1", {"webhook": receiver.url})
        pauses(study, Reason.DISK_FULL, Reason.TARGET_UNAVAILABLE)
        with notifying(service_over(sqlite_ledger, tmp_path)):
            wait_for_states(sqlite_ledger, "delivered", "delivered")
    assert time.monotonic() - began < 40  # the body takes a hundred seconds


@pytest.mark.parametrize("bad", [hangs, drips], ids=["hangs", "drips"])
def test_a_receiver_that_does_not_answer_in_time_is_asked_again(
    sqlite_ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: Callable[[Any], None],
) -> None:
    monkeypatch.setattr(webhooks, "SEND_S", 0.5)
    with receiving(bad) as slow:
        fails(told_study(sqlite_ledger, "s1", {"webhook": slow.url}))
        with notifying(service_over(sqlite_ledger, tmp_path)):
            first, second = slow.wait_for(2)
    assert second.at - first.at >= 0.5
    assert second.id == first.id


def _delivered(ledger: Ledger) -> int:
    return sum(one.state is NotificationState.DELIVERED for one in all_of(ledger))


def test_a_receiver_that_hangs_holds_up_nobody_else(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    with receiving(hangs) as slow, receiving() as quick:
        both = [{"webhook": slow.url}, {"webhook": quick.url}]
        for number in range(3):
            fails(told_study(sqlite_ledger, f"s{number}", *both))
        with notifying(service_over(sqlite_ledger, tmp_path)):
            quick.wait_for(3, patience_s=webhooks.SEND_S - 2)
            assert len(slow.got) <= 1  # one at a time for each host
            wait_until(lambda: _delivered(sqlite_ledger) == 3, "it is noted", 8.0)
    states = {(one.webhook, str(one.state)) for one in all_of(sqlite_ledger)}
    assert states == {(slow.url, "waiting"), (quick.url, "delivered")}


def test_order_is_kept_while_the_first_one_fails(ledger: Ledger, tmp_path: Path) -> None:
    with receiving(answers(500), answers(500), TAKES) as receiver:
        study = told_study(ledger, "s1", {"webhook": receiver.url})
        pauses(study, Reason.DISK_FULL, Reason.TARGET_UNAVAILABLE)
        with notifying(service_over(ledger, tmp_path)):
            found = receiver.wait_for(4)
    first, _, again, second = (got.document["data"]["seq"] for got in found)
    assert first == again < second


def test_nothing_is_lost_or_doubled_among_several_workers(ledger: Ledger, tmp_path: Path) -> None:
    with receiving() as receiver:
        service = service_over(ledger, tmp_path)
        with notifying(service), notifying(service, owner="elsewhere/1/1"):
            for number in range(6):
                fails(told_study(ledger, f"s{number}", {"webhook": receiver.url}))
            receiver.wait_for(6)
            wait_for_states(ledger, *["delivered"] * 6)
            time.sleep(0.3)
    assert sorted(got.id for got in receiver.got) == sorted({got.id for got in receiver.got})
    assert len(receiver.got) == 6


def test_a_claim_is_anothers_until_it_runs_out_or_its_process_is_gone(ledger: Ledger) -> None:
    fails(told_study(ledger, "s1", {"webhook": "http://127.0.0.1:9"}))
    assert Noticing(ledger, _settings()).look() is False
    (one,) = all_of(ledger)

    def claims(owner: str, gone: str | None = None) -> bool:
        with ledger.write() as session:
            return writes.claim_notification(session, one.id, owner, LEASE_S, gone=gone)

    assert claims("a")
    assert not claims("b")
    assert not claims("b", gone="c")
    assert claims("b", gone="a")
    for wrong_s in (-1.0, 10 * LEASE_S):  # it ran out; or the clock was set back since
        _set(ledger, lease_expires_at=_now(ledger) + wrong_s)
        assert claims("c")
    with ledger.write() as session:
        writes.release_notification(session, one.id, "c")
    assert claims("d")


def _settings() -> Settings:
    return read_settings({})


def _now(ledger: Ledger) -> float:
    with ledger.read() as session:
        return session.now()


def _set(ledger: Ledger, **values: object) -> None:
    with ledger.write() as session:
        session.connection.execute(update(Base.metadata.tables["notifications"]).values(values))


def test_a_clock_that_was_set_back_keeps_nothing_waiting(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    with receiving() as receiver:
        fails(told_study(sqlite_ledger, "s1", {"webhook": receiver.url}))
        Noticing(sqlite_ledger, _settings()).look()
        _set(sqlite_ledger, next_at=_now(sqlite_ledger) + 3e7)
        with notifying(service_over(sqlite_ledger, tmp_path)):
            receiver.wait_for(1)


def test_a_private_address_is_not_asked_where_the_operator_does_not_say_so(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    with receiving() as receiver:
        fails(told_study(sqlite_ledger, "s1", {"webhook": f"{receiver.url}/path-of-a-key"}))
        service = service_over(sqlite_ledger, tmp_path, ARL_NOTIFY_ALLOW_PRIVATE="0")
        with notifying(service):
            (one,) = wait_for_states(sqlite_ledger, "dead")
        assert receiver.connections == 0
    assert "ARL_NOTIFY_ALLOW_PRIVATE" in one.detail
    assert "path-of-a-key" not in one.detail


def test_without_its_secret_nothing_is_sent(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    with receiving() as receiver:
        named = {"webhook": receiver.url, "secret": "ARL_SECRET_MISSING"}
        fails(told_study(sqlite_ledger, "s1", named))
        with notifying(service_over(sqlite_ledger, tmp_path)):
            (one,) = wait_for_states(sqlite_ledger, "dead")
        assert receiver.connections == 0
    assert "ARL's environment has no such variable" in one.detail


def test_entries_are_looked_at_once_also_after_a_restart(ledger: Ledger) -> None:
    study = told_study(ledger, "s1", {"webhook": "http://127.0.0.1:9", "on": ["study_paused"]})
    pauses(study, Reason.DISK_FULL)
    first, second = Noticing(ledger, _settings()), Noticing(ledger, _settings())
    first.look()
    assert len(all_of(ledger)) == 1
    second.look()
    first.look()
    assert len(all_of(ledger)) == 1
    submit(ledger, "quiet")
    with ledger.read() as session:
        assert [unseen.study_id for unseen in unseen_studies(session)] in ([], ["s1"])
        assert len(next_in_queues(session)) == 1


def test_a_study_that_nobody_can_read_keeps_no_other_one_waiting(
    sqlite_ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    broken = told_study(sqlite_ledger, "s1", {"webhook": "http://127.0.0.1:9"})
    fails(broken)
    with sqlite_ledger.write() as session:
        studies = Base.metadata.tables["studies"]
        session.connection.execute(update(studies).values(spec='{"notify": [{"webhook": 7}]}'))
    fails(told_study(sqlite_ledger, "s2", {"webhook": "http://127.0.0.1:9"}))
    Noticing(sqlite_ledger, _settings()).look()
    assert [one.study_id for one in all_of(sqlite_ledger)] == ["s2"]
    assert "webhooks of study s1 are told nothing" in caplog.text


def test_pages_and_counts_say_what_is_left(ledger: Ledger) -> None:
    for number in range(5):
        fails(told_study(ledger, f"s{number}", {"webhook": "http://127.0.0.1:9"}))
    Noticing(ledger, _settings()).look()
    with ledger.read() as session:
        first = page_of_notifications(session, limit=3)
        rest = page_of_notifications(session, limit=3, cursor=first.next_cursor)
        alone = page_of_notifications(session, study_id="s2")
        none = page_of_notifications(session, states=[NotificationState.DEAD])
        counts = count_notifications(session), count_notifications(session, "s2")
    seen = [one.study_id for one in (*first.items, *rest.items)]
    assert sorted(seen) == [f"s{number}" for number in range(5)]
    assert (rest.next_cursor, [one.study_id for one in alone.items]) == (None, ["s2"])
    assert none.items == []
    assert counts == ({"waiting": 5, "dead": 0}, {"waiting": 1, "dead": 0})


def test_ending_gives_what_is_due_its_try_and_waits_for_no_second_one(
    sqlite_ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    down = f"http://127.0.0.1:{closed_port()}/path-of-a-key"
    with receiving() as receiver:
        fails(told_study(sqlite_ledger, "s1", {"webhook": receiver.url}, {"webhook": down}))
        with notifying(service_over(sqlite_ledger, tmp_path), patience=Patience()) as notifier:
            began = time.monotonic()
            notifier.end(10.0)
            took_s = time.monotonic() - began
        assert took_s < 8
        assert len(receiver.got) == 1
    left = [one for one in all_of(sqlite_ledger) if one.state == "waiting"]
    assert [(one.webhook, one.tries) for one in left] == [(down, 1)]
    assert "1 notifications wait" in caplog.text
    assert "path-of-a-key" not in caplog.text


def test_stopping_cuts_what_is_under_way_and_counts_it_as_no_try(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    with receiving(hangs) as receiver:
        fails(told_study(sqlite_ledger, "s1", {"webhook": receiver.url}))
        with notifying(service_over(sqlite_ledger, tmp_path)) as notifier:
            receiver.wait_for(1)
            began = time.monotonic()
            notifier.end(0)
            assert time.monotonic() - began < 20  # it would hang for a minute
    (one,) = all_of(sqlite_ledger)
    assert (str(one.state), one.tries, one.lease_owner) == ("waiting", 0, None)


def test_the_queue_of_a_webhook_that_is_down_costs_a_look_little(sqlite_ledger: Ledger) -> None:
    study = told_study(sqlite_ledger, "s1", {"webhook": "http://127.0.0.1:9"})
    fails(study)
    Noticing(sqlite_ledger, _settings()).look()
    (one,) = all_of(sqlite_ledger)
    _copy(sqlite_ledger, 5000)
    took_s = []
    for _ in range(3):  # the shortest: something else may run between
        began = time.perf_counter()
        with sqlite_ledger.read() as session:
            assert [head.id for head in next_in_queues(session)] == [one.id]
        took_s.append(time.perf_counter() - began)
    assert min(took_s) < 1.0


def _copy(ledger: Ledger, count: int) -> None:
    sent = Base.metadata.tables["notifications"]
    with ledger.write() as session:
        row = dict(session.connection.execute(sent.select()).mappings().one())
        rows = [
            {**row, "id": f"copy-{number}", "seq": row["seq"] + 1 + number}
            for number in range(count)
        ]
        session.connection.execute(sent.insert(), rows)


def test_the_documented_way_to_check_a_signature_works(
    sqlite_ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    (snippet,) = [
        part.partition("```")[0]
        for part in page.split("```python")[1:]
        if "webhook-signature" in part
    ]
    space: dict[str, Any] = {}
    exec(compile(snippet, "docs/service.md", "exec"), space)  # what a reader would copy
    check = space["is_from_arl"]
    monkeypatch.setenv("ARL_SECRET_HOOKS", KEY)
    with receiving() as receiver:
        named = {"webhook": receiver.url, "secret": "ARL_SECRET_HOOKS"}
        fails(told_study(sqlite_ledger, "s1", named))
        with notifying(service_over(sqlite_ledger, tmp_path)):
            (got,) = receiver.wait_for(1)
    assert check(got.headers, got.body, KEY)
    assert not check(got.headers, got.body + b" ", KEY)
    assert not check(got.headers, got.body, "whsec_b3RoZXI=")
    old: Got = got
    assert not check({**old.headers, "webhook-timestamp": "1"}, old.body, KEY)
