"""`arl run`, `resume`, `submit` and `worker`: ends, interruptions, kills, and two at once."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli_runs import Arl, Done, arl_in, interrupt
from tests.model_endpoint import in_turn, model_endpoint, proposes, sends

SLOW = "sleep 0.8"


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path / "place") as made:
        yield made


def numbers(arl: Arl) -> list[int]:
    return [t["number"] for t in arl.show()["trials"]]


def test_run_prints_a_line_for_everything_that_happens(arl: Arl) -> None:
    words = arl.ok("run", arl.study()).out
    assert words.count("baseline ") >= 2
    assert words.count(" trial ") >= 3
    assert "study tiny is completed (budget_trials" in words
    assert "best in search: score 0." in words


def test_run_says_that_no_model_answers_and_when_one_does(arl: Arl) -> None:
    with model_endpoint(in_turn(sends(401, "gone"), proposes({"x": 0.5}))) as endpoint:
        model = {"url": endpoint.url, "model": "m"}
        rest = {"first_rest_s": 1, "longest_rest_s": 1}
        options = {"endpoints": [model], "max_tokens": 100, **rest}
        budget = {"trials": 1, "llm_tokens": "2M"}
        study = arl.study(proposer={"name": "llm", "options": options}, budget=budget)
        words = arl.ok("run", study).out
    said = [line for line in words.splitlines() if "study tiny waits: no endpoint" in line]
    assert len(said) == 1
    assert "status 401" in said[0]
    assert words.index("study tiny goes on") > words.index(said[0])


def test_a_study_that_fails_ends_with_6_and_says_why(arl: Arl) -> None:
    done = arl.run("run", arl.study(body="exit 3"), "--json")
    assert done.code == 6
    study = done.json()
    assert (study["state"], study["reason"]) == ("failed", "baseline_failed")
    assert done.err == ""
    again = arl.run("resume", "last")
    assert again.code == 4
    assert "failed" in again.err


def test_two_runs_of_one_file_do_not_search_beside_each_other(arl: Arl) -> None:
    file = arl.study(body=SLOW)
    first = arl.start("run", file)
    study = arl.wait_until(lambda s: s["state"] == "running")
    second = arl.run("run", file)
    assert second.code == 4
    assert f"arl resume {study['study']}" in second.err
    busy = arl.run("resume", study["study"])
    assert busy.code == 4
    assert f"worker {first.pid}" in busy.err
    assert interrupt(first).code == 130
    assert len(arl.ok("studies", "--json").json()["studies"]) == 1


def test_ctrl_c_says_how_to_resume_and_resume_finishes_the_study(arl: Arl) -> None:
    running = arl.start("run", arl.study(body=SLOW))
    study = arl.wait_until(lambda s: any(t["state"] == "running" for t in s["trials"]))
    stopped = interrupt(running)
    assert stopped.code == 130
    assert f"arl resume {study['study']}" in stopped.out
    assert "1 attempt of it goes on running" in stopped.out
    assert "Traceback" not in stopped.err
    done = arl.ok("resume", "--json").json()
    assert done["state"] == "completed"
    assert done["recovered"]["adopted"] + done["recovered"]["ended"] == 1
    assert done["recovered"]["lost"] == 0
    assert sum(done["counts"]["search"].values()) == 3
    assert numbers(arl) == list(range(5))


def test_a_terminal_that_closes_ends_no_command_started_with_nohup(arl: Arl) -> None:
    running = arl.start("run", arl.study(body=SLOW), "--json", before=("nohup",))
    arl.wait_until(lambda s: any(t["state"] == "running" for t in s["trials"]))
    done = interrupt(running, signal.SIGHUP)
    assert done.code == 0, done.err
    assert done.json()["state"] == "completed"


def test_a_terminal_that_closes_asks_any_other_command_to_end(arl: Arl) -> None:
    heeding = ("env", "--default-signal=HUP")  # though these tests run under nohup themselves
    running = arl.start("run", arl.study(body=SLOW), before=heeding)
    arl.wait_until(lambda s: any(t["state"] == "running" for t in s["trials"]))
    assert interrupt(running, signal.SIGHUP).code == 130


def test_a_second_ctrl_c_leaves_at_once(arl: Arl) -> None:
    running = arl.start("run", arl.study(body="sleep 30"))
    arl.wait_until(lambda s: any(t["state"] == "running" for t in s["trials"]))
    os.kill(running.pid, signal.SIGSTOP)  # so that it sees both signals together
    os.kill(running.pid, signal.SIGINT)
    os.kill(running.pid, signal.SIGTERM)
    started = time.monotonic()
    os.kill(running.pid, signal.SIGCONT)
    assert running.wait(timeout=20) == 130
    assert time.monotonic() - started < 10
    running.communicate()


def test_after_kill_9_resume_adopts_what_runs_and_repeats_nothing(arl: Arl) -> None:
    running = arl.start("run", arl.study(body=SLOW))
    arl.wait_until(lambda s: s["timings"]["first_trial_started_at"] is not None)
    assert interrupt(running, signal.SIGKILL).code == -signal.SIGKILL
    done = arl.ok("resume")
    assert "resuming tiny" in done.out
    assert "adopted" in done.out or "ended meanwhile" in done.out
    study = arl.show()
    assert study["state"] == "completed"
    launches = [arl.show(t["id"])["attempts"] for t in study["trials"][:2]]
    assert all(len([a for a in tried if a["kind"] == "train"]) == 1 for tried in launches)
    assert arl.ok("verify", "--json").json()["ok"] is True


def test_resume_without_names_finds_every_interrupted_study_and_no_other(arl: Arl) -> None:
    assert arl.run("submit", arl.study("one", file="one.yaml")).code == 0
    assert arl.run("submit", arl.study("two", file="two.yaml")).code == 0
    done = arl.ok("resume", "--json").json()
    assert {(s["name"], s["state"]) for s in done["studies"]} == {
        ("one", "completed"),
        ("two", "completed"),
    }
    assert arl.ok("resume", "--json").json()["studies"] == []
    assert "nothing to resume" in arl.ok("resume").out


def test_submit_prints_the_id_and_a_worker_runs_it_until_it_is_told_to_stop(arl: Arl) -> None:
    study_id = arl.ok("submit", arl.study()).out.strip()
    worker = arl.start("worker", ARL_LOG_FORMAT="json")
    study = arl.wait_until(lambda s: s["state"] == "completed", study_id)
    assert study["counts"]["total"] == 5
    stopped = interrupt(worker, signal.SIGTERM)
    assert stopped.code == 0
    said = [json.loads(line) for line in stopped.err.splitlines()]
    assert {line["study"] for line in said} == {study_id}
    ended = [line["trial"] for line in said if line["event"] == "trial_decided"]
    assert len(ended) == len(set(ended)) == 5


def test_logs_follow_a_running_trial_to_its_end(arl: Arl) -> None:
    running = arl.start("run", arl.study(body="echo early; sleep 1; echo late"))
    arl.wait_until(lambda s: s["timings"]["first_trial_started_at"] is not None)
    followed = arl.ok("logs", "last/0", "--follow").out
    assert followed.index("early") < followed.index("late")
    done: Done = interrupt(running)
    assert done.code in (0, 130)


def test_a_ledger_of_a_newer_arl_is_left_alone(arl: Arl) -> None:
    import sqlite3

    arl.ok("submit", arl.study())
    database = sqlite3.connect(arl.home / "ledger.db")
    database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.commit()
    database.close()
    for verb in (("show",), ("run", "study.yaml"), ("db", "upgrade"), ("db", "check")):
        done = arl.run(*verb)
        assert done.code == 5
        assert "ledger_too_new" in done.err


def test_on_a_terminal_a_live_panel_shows_trials_budgets_and_what_runs(arl: Arl) -> None:
    # Long enough that a busy machine draws the panel between a report and the end.
    file = arl.study(body="sleep 2.5", budget={"trials": 2, "wall_time": "10m"})
    code, shown = on_terminal(arl, "run", file)
    assert code == 0
    assert "baselines" in shown
    assert "wall time (min)" in shown
    assert "trial 0" in shown
    assert "train/loss 0.5 at step 1" in shown, "what runs says what it reported last"
    assert "━" in shown, "budgets are bars"
    assert "time left" in shown
    assert "study tiny" in shown.splitlines()[-4], "the panel makes place for the ending"


def on_terminal(arl: Arl, *arguments: str) -> tuple[int, str]:
    """Run with a terminal of 100 columns as standard output; the exit code and all of it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "controller.cli", *arguments],
        cwd=arl.place,
        env=arl.environment({"TERM": "xterm", "COLUMNS": "100", "LINES": "40"}),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # the terminal is gone when its last writer is
        while chunk := os.read(ours, 65536):
            seen += chunk
    os.close(ours)
    return process.wait(timeout=20), seen.decode()
