"""Campaigns as people and programs read them: over HTTP and on the command line, the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.campaigns.log import CampaignLog, Maker
from controller.wiring import Service
from ledger.campaign_entries import (
    CampaignAlarm,
    CampaignFailed,
    CampaignRolledBack,
    CampaignSet,
    ExperienceTakenIn,
    ShiftMeasured,
    SliceMeasured,
)
from ledger.verify import verify_ledger
from tests.acceptance.shell_study import open_service
from tests.api_runs import client_of
from tests.cli_runs import Arl
from tests.served_models import Here

ESCAPE = "\x1b[31mred"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path)
    yield opened
    opened.close()


def fill(service: Service, name: str) -> None:
    """A campaign with one of everything, some of it written by others."""
    CampaignLog(service.ledger, name).add(*begun(name), *watched(name))


def begun(name: str) -> tuple[Maker, ...]:
    return (
        lambda number: CampaignSet(
            campaign=name,
            number=number,
            model="m",
            document={"name": name},
            bundle_digest="b",
            slices={"basics": "d"},
            actor="ann",
        ),
        lambda number: ExperienceTakenIn(
            campaign=name,
            number=number,
            source="a.jsonl",
            source_digest="e",
            tree="",
            training=7,
            held_out=2,
            without_consent=3,
            invalid=1,
            duplicates=4,
            problems=(f"line 1: {ESCAPE}",),
        ),
    )


def watched(name: str) -> tuple[Maker, ...]:
    measured: dict[str, Any] = {
        "campaign": name,
        "slice": "basics",
        "slice_digest": "d",
        "served_as": f"m@{ESCAPE}",
        "value": 0.25,
        "items_digest": "i",
        "answers_digest": "a",
    }
    drop = {"drop": 0.5, "low95": 0.25, "high95": 0.75, "items": 40, "gained": 0, "lost": 20}
    return (
        lambda number: ShiftMeasured(
            campaign=name,
            number=number,
            prompts=50,
            reference=60,
            statistics={"length": {"psi": 0.5, "p": 0.005}},
            shifted=True,
        ),
        lambda number: SliceMeasured(
            number=number,
            **measured,
            artifact_digest="new",
            against="old",
            comparison=drop,
            forgotten=True,
        ),
        lambda number: CampaignAlarm(
            campaign=name,
            number=number,
            alarm="forgetting",
            detail=ESCAPE,
            action="roll_back",
            promotion=2,
            back_to=1,
        ),
        lambda number: CampaignFailed(campaign=name, number=number, step="serve", detail="gone"),
    )


def test_a_campaign_is_read_over_http_as_on_the_command_line(
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(service, "live")
    fill(service, "beta")
    here = Here(Arl(tmp_path), monkeypatch, capsys)
    with client_of(service) as client:
        assert client.get("/api/v1/campaigns/none").status_code == 404
        assert client.get("/api/v1/campaigns/a%00b").status_code == 404
        listed = client.get("/api/v1/campaigns").json()["items"]
        assert listed == here.run("campaign", "list", "--json").json()["campaigns"]
        assert [row["campaign"] for row in listed] == ["beta", "live"]
        shown = client.get("/api/v1/campaigns/live").json()
        assert shown == here.run("campaign", "show", "live", "--json").json()
    check(shown)
    text = here.run("campaign", "show", "live").out
    assert "\x1b" not in text
    assert "slice basics: 0.25" in text
    assert "FORGOTTEN" in text
    assert "a.jsonl: line 1: \\x1b[31mred" in text, "what was wrong with a record is said"
    assert "active, 0 studies so far" in text
    assert "last cycle failed (serve): gone" in text
    assert verify_ledger(service.ledger, None) == []


def check(shown: Any) -> None:
    assert (shown["new_records"], shown["open_alarm"], shown["alarms"]) == (7, 5, 1)
    assert shown["experience"]["without_consent"] == 3
    assert shown["slices"][0]["comparison"]["drop"] == 0.5
    assert shown["shift"]["shifted"]
    assert shown["failed"] == {"step": "serve", "detail": "gone"}
    assert [event["number"] for event in shown["events"]] == [6, 5, 4, 3, 2, 1]
    assert shown["alarm_list"][0]["settled"] is None


def test_a_stop_is_recorded_with_who_and_why_and_settles_nothing(
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(service, "live")
    here = Here(Arl(tmp_path), monkeypatch, capsys)
    stopped = here.run("campaign", "stop", "live", "--note", "the form changed", "--json")
    assert stopped.code == 0
    assert (stopped.json()["state"], stopped.json()["open_alarm"]) == ("stopped", 5)
    assert stopped.json()["events"][0]["facts"]["note"] == "the form changed"
    assert here.run("campaign", "stop", "live").code == 4
    assert here.run("campaign", "stop", "nobody").code == 3
    log = CampaignLog(service.ledger, "live")
    log.add(
        lambda number: CampaignRolledBack(
            campaign="live", number=number, alarm=5, pointer=3, detail="back"
        )
    )
    alarm = here.run("campaign", "show", "live", "--json").json()["alarm_list"][0]
    assert (alarm["settled"], alarm["pointer"]) == ("back", 3)


WORDS = {
    "no file": (("campaign", "once"), 2, "write `arl campaign once CAMPAIGN.yaml`"),
    "two files": (("campaign", "run", "a", "b"), 2, "write `arl campaign run CAMPAIGN.yaml`"),
    "absent": (("campaign", "once", "absent.yaml"), 2, "there is no such file"),
    "what": (("campaign", "begin", "a"), 2, "begin"),
    "look": (("campaign", "run", "a.yaml", "--look", "0"), 2, "--look"),
    "endless": (("campaign", "run", "a.yaml", "--look", "inf"), 2, "--look"),
    "nobody": (("campaign", "show", "nobody"), 3, "no campaign is called nobody"),
    "server": (("campaign", "list", "--server", "http://127.0.0.1:9"), 2, "this machine's ledger"),
}


@pytest.mark.parametrize("what", WORDS)
def test_words_that_make_no_sense_are_refused_with_what_to_write(
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
) -> None:
    monkeypatch.delenv("ARL_SERVER", raising=False)
    monkeypatch.setenv("ARL_SERVER", "")
    here = Here(Arl(tmp_path), monkeypatch, capsys)
    words, code, said = WORDS[what]
    done = here.run(*words)
    assert done.code == code, done.err
    assert said in done.err
