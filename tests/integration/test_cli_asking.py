"""Verbs that steer a study, with a live worker and without one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_runs import Arl, arl_in, interrupt

PROMOTION = {"model": "tiny", "profile": "quick"}


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path / "place") as made:
        yield made


def test_pause_stop_and_resume_are_answered_by_the_worker_that_drives(arl: Arl) -> None:
    running = arl.start("run", arl.study(body="sleep 0.5", budget={"trials": 500}))
    arl.wait_until(lambda s: s["counts"].get("search"))
    paused = arl.ok("pause", "last", "--wait", "--json").json()
    assert (paused["answer"], paused["state"]) == ("applied", "paused")
    assert paused["by"].startswith(f"worker {running.pid} ")
    assert all(t["state"] != "running" for t in arl.show()["trials"])
    assert arl.run("pause", "last").code == 4, "it is paused already"
    assert arl.ok("resume", "last", "--json").json()["asked"] == [paused["study"]]
    arl.wait_until(lambda s: s["state"] == "running")
    stopped = arl.ok("stop", "last", "--wait", "--json").json()
    assert (stopped["state"], stopped["reason"]) == ("completed", "stopped_by_operator")
    out, _ = running.communicate(timeout=30)
    assert running.returncode == 0
    assert "paused_by_operator" in out


def test_without_a_worker_requests_are_applied_here(arl: Arl) -> None:
    running = arl.start("run", arl.study(body="sleep 1", budget={"trials": 5}))
    arl.wait_until(lambda s: s["state"] == "running")
    interrupt(running)
    paused = arl.ok("pause", "last", "--json").json()
    assert (paused["by"], paused["state"]) == ("here", "paused")
    assert arl.ok("resume", "--json").json()["studies"] == [], "an operator's pause is kept"
    assert "arl resume" in arl.ok("extend", "last", "--trials", "+1").out
    assert arl.show()["budgets"]["trials"]["limit"] == 6
    resumed = arl.start("resume", "last")
    arl.wait_until(lambda s: s["state"] == "running")
    interrupt(resumed)
    cancelled = arl.ok("cancel", "last", "--json").json()
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "cancelled_by_operator")
    assert all(t["state"] != "running" for t in arl.show()["trials"])
    assert arl.run("cancel", "last").code == 4
    assert arl.ok("verify", "--json").json()["ok"] is True


def test_a_completed_study_is_extended_and_takes_a_trial_by_hand(arl: Arl) -> None:
    arl.ok("run", arl.study())
    extended = arl.ok("extend", "last", "--trials", "+3", "--wall-time", "20m", "--json").json()
    assert extended["state"] == "running"
    assert arl.show()["budgets"]["wall_s"]["limit"] == 1200
    asked = arl.ok("trial", "last", "--params", "x=1", "--json").json()
    assert asked["answer"] == "applied"
    refused = arl.run("trial", "last", "x=2")
    assert refused.code == 4
    assert "x" in refused.err
    study = arl.ok("resume", "last", "--json").json()
    assert study["state"] == "completed"
    assert study["best"]["params"] == {"x": 1.0}
    assert sum(study["counts"]["search"].values()) == 6


def test_promotion_waits_for_approval_and_is_approved_or_declined(arl: Arl) -> None:
    arl.ok("init", "example")
    place = Arl(arl.place / "example")
    study_file = place.place / "study.yaml"
    text = study_file.read_text()
    study_file.write_text(text.replace("profile: quick", "profile: quick\n  approval: required"))
    with arl_in(place.place):
        done = place.ok("run", "study.yaml", "--json").json()
        winner = done["promotion"]["candidate"]
        assert done["promotion"]["state"] == "awaiting_approval"
        assert done["promotion"]["promoted"] is False
        approved = place.ok("promote", winner, "--json").json()
        assert approved["answer"] == "applied"
        promotion = place.show()["promotion"]
        assert promotion["promoted"] is True
        assert place.show()["incumbents"][0]["approver"].startswith("cli:")
        assert place.run("decline", winner).code == 4, "it is promoted already"
        loser = place.show("last/5")["candidate"]
        assert place.ok("replay", loser, "--wait", "--json").json()["state"] == "completed"
        families = place.show()["families"]
        assert [f["state"] for f in families] == ["promoted", "refused"]
        for wanted, code, said in (
            (("--quantize", "int3"), 2, "no such value"),
            (("--quantize", "int8", "--margin", "-1"), 2, "it must be above 0"),
            (("--merge",), 2, "the base that the adapter belongs to is not known"),
            ((), 2, "it says nothing to do"),
            (("--quantize", "int8", "--margin", "0.1"), 4, "is not promoted"),
        ):
            refused = place.run("convert", loser, *wanted)
            assert (refused.code, said in refused.err) == (code, True), refused.err


def test_replay_without_a_promotion_section_is_refused_with_what_to_do(arl: Arl) -> None:
    arl.ok("run", arl.study())
    done = arl.run("replay", "last/3")
    assert done.code == 4
    assert "promotion" in done.err
