"""A ledger that was put back to an older state is noticed, and gone on with only knowingly."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from controller.cli import front
from controller.witness import missing_from
from controller.worker.restoring import accept_restore
from ledger import reads
from ledger.backup import back_up
from ledger.errors import Conflict, LedgerRestored
from ledger.heads import write_heads
from ledger.records import CommandVerb
from ledger.states import StudyState
from ledger.verify import verify_ledger
from tests.acceptance.lab import Lab, train
from tests.acceptance.shell_study import settings
from tests.target_runs import is_alive


def put_back(lab: Lab, copy: Path) -> None:
    """The older copy in the ledger's place, as an operator does it."""
    for suffix in ("-wal", "-shm"):
        lab.home.joinpath(f"ledger.db{suffix}").unlink(missing_ok=True)
    shutil.copy(copy, lab.home / "ledger.db")


def test_a_worker_refuses_an_older_ledger_and_goes_on_once_it_is_accepted(lab: Lab) -> None:
    study_id = lab.run(budget={"trials": 2}).id
    copy = lab.base / "copy.db"
    assert back_up(lab.home / "ledger.db", copy) > 0
    lab.ask(study_id, CommandVerb.EXTEND, trials={"by": 2})
    lab.drive(study_id)
    later = lab.run(name="later", budget={"trials": 1}).id
    held = len(lab.entries(study_id)) + len(lab.entries(later))
    put_back(lab, copy)
    with pytest.raises(LedgerRestored, match="arl db accept-restore") as refused:
        lab.drive(study_id)
    assert f"and held {held} before" in str(refused.value)
    found, ended = accept_restore(settings(lab.base), "the disk broke", "ann")
    assert (found.witnessed, ended) == (held, 0)
    (lab.base / "ran").unlink()  # of the lost future, whose names are used again
    lab.ask(study_id, CommandVerb.EXTEND, trials={"by": 1})
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert [trial.number for trial in lab.trials(study_id)] == [2, 3, 4]
    with lab.service() as service, service.ledger.read() as session:
        (accepted,) = reads.list_entries(session, "service", limit=10)
        assert accepted.kind == "restore_accepted"
        assert (accepted.payload["held"], accepted.payload["note"]) == (
            found.held,
            "the disk broke",
        )
        assert verify_ledger(service.ledger, service.store) == []
    with pytest.raises(Conflict, match="nothing to accept"):
        accept_restore(settings(lab.base), "", "ann")


def test_what_only_the_lost_entries_knew_is_ended_and_not_adopted(lab: Lab) -> None:
    hold = 'while [ -e "${ARL_OUTPUT%/.arl/*}/hold" ]; do sleep 0.02; done; '
    study_id = lab.submit(program=train(every=hold), budget={"trials": 2})
    copy = lab.base / "copy.db"
    back_up(lab.home / "ledger.db", copy)
    (lab.base / "hold").touch()
    worker = lab.worker(study_id)
    lab.wait_for(lab.ran, "a program of the lost future runs")
    name = lab.ran()[0]
    pid = lab.program_pid(name)
    lab.wait_for(lambda: any(a.handle for a in lab.attempts(study_id)), "the ledger knows it")
    with lab.service() as service:
        service.witness.note()
    worker.kill()
    put_back(lab, copy)
    with pytest.raises(LedgerRestored):
        lab.drive(study_id)
    _, ended = accept_restore(settings(lab.base), "", "ann")
    assert ended == 1
    lab.wait_for(lambda: not is_alive(pid), "its process is gone")
    (lab.base / "ran").unlink()
    (lab.base / "hold").unlink()
    assert lab.drive(study_id).state is StudyState.COMPLETED
    assert lab.ran().count(name) == 1


def test_recorded_heads_alone_show_it_and_are_put_aside(lab: Lab) -> None:
    study_id = lab.run(budget={"trials": 1}).id
    copy = lab.base / "copy.db"
    back_up(lab.home / "ledger.db", copy)
    lab.ask(study_id, CommandVerb.EXTEND, trials={"by": 1})
    lab.drive(study_id)
    with lab.service() as service, service.ledger.read() as session:
        write_heads(session, service.settings.heads_path)
    for witness in lab.home.glob("witness-*.json"):
        witness.unlink()
    put_back(lab, copy)
    with pytest.raises(LedgerRestored):
        lab.drive(study_id)
    accept_restore(settings(lab.base), "", "ann")
    assert "seq" in (lab.home / "heads-lost.jsonl").read_text()
    with lab.service() as service:
        heads = service.settings.heads_path
        assert verify_ledger(service.ledger, service.store, heads_path=heads) == []
    (lab.base / "ran").unlink()


def test_an_accepted_copy_verifies_where_the_service_chain_had_grown(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the copy was accepted has the place in that chain of the first entry that was lost."""
    monkeypatch.setenv("ARL_HOME", str(lab.home))
    lab.expects_ends = False
    lab.submit()
    copy = lab.base / "copy.db"
    assert front.run(["db", "backup", str(copy)]) == 0
    assert front.run(["token", "create", "late", "--scope", "read"]) == 0
    with lab.service() as service, service.ledger.read() as session:
        write_heads(session, service.settings.heads_path)
    put_back(lab, copy)
    assert front.run(["db", "accept-restore", "--note", "known"]) == 0
    assert '"chain":"service"' in (lab.home / "heads-lost.jsonl").read_text()
    assert front.run(["verify"]) == 0


def test_an_empty_witness_is_none(lab: Lab) -> None:
    lab.submit()
    (witness,) = lab.home.glob("witness-*.json")
    witness.write_text("")
    with lab.service() as service:
        assert missing_from(service.ledger, service.settings) is None
    lab.expects_ends = False


def test_the_verbs_copy_refuse_and_accept(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARL_HOME", str(lab.home))
    lab.expects_ends = False
    lab.submit()
    copy = lab.base / "copy.db"
    assert front.run(["db", "backup", str(copy)]) == 0
    assert front.run(["db", "backup", str(copy)]) == 4
    assert "is there already" in capsys.readouterr().err
    with sqlite3.connect(copy) as raw:
        assert raw.execute("SELECT count(*) FROM studies").fetchone() == (1,)
    assert front.run(["db", "accept-restore"]) == 4
    lab.submit(name="second")
    put_back(lab, copy)
    for verb in (["db", "check"], ["worker"], ["resume"]):
        assert front.run(verb) == 5, verb
        assert "arl db accept-restore" in capsys.readouterr().err
    assert front.run(["db", "accept-restore", "--note", "known", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["held"], told["lost"], told["ended"]) == (1, 1, 0)
    assert front.run(["db", "check"]) == 0
