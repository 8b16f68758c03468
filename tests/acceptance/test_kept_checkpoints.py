"""Checkpoints that a study does not keep are let go, and what something needs never is."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ledger import objects, reads
from ledger.errors import ArtifactLetGo
from ledger.records import Artifact, CommandVerb
from ledger.states import FamilyState, StudyState
from ledger.unneeded import Graces, discard, find_unneeded
from ledger.verify import verify_ledger
from tests.acceptance.lab import NOTE, READ_X, Lab

BIG = 9 << 20  # hard links are made of files so large
WEIGHTS = f'head -c {BIG} /dev/zero > "$ARL_OUTPUT/model/weights"; '
SAVE = (
    'mkdir "$ARL_OUTPUT/model"; echo "$x" > "$ARL_OUTPUT/model/x"; '
    'echo same > "$ARL_OUTPUT/model/tokenizer"; '
    'echo "$x-$ARL_ATTEMPT" > "$ARL_OUTPUT/model/own"; '
)
NOW = Graces(let_go_s=0.0, orphan_s=0.0)


def saving(more: str = "") -> dict[str, Any]:
    """Every model is a tree of its own, and shares a file with all others."""
    return {"kind": "command", "argv": ["/bin/sh", "-c", READ_X + NOTE + SAVE + more]}


def artifacts(lab: Lab, study_id: str) -> dict[str, Artifact]:
    """Models by trial."""
    found: dict[str, Artifact] = {}
    with lab.service() as service, service.ledger.read() as session:
        for kind in ("baseline", "search", "replay", "conversion"):
            for trial in lab.trials(study_id, kind):
                for one in reads.get_trial(session, trial.id).artifacts:
                    found[trial.id] = one
    return found


def sweep(lab: Lab, *, orphans: bool = False) -> int:
    with lab.service() as service:
        with service.ledger.read() as session:
            found = find_unneeded(session, service.store, orphans=orphans, graces=NOW)
        return discard(service.store, found)


@pytest.fixture
def checked(lab: Lab) -> Iterator[Lab]:
    """A lab whose ledger and store are verified when the test is over."""
    yield lab
    with lab.service() as service:
        assert verify_ledger(service.ledger, service.store) == []


def test_the_best_stay_and_the_bytes_of_the_others_go(checked: Lab) -> None:
    lab = checked
    done = lab.run(
        program=saving(), budget={"trials": 8}, retention={"checkpoints": "best-2"}, parallel=3
    )
    assert done.state is StudyState.COMPLETED
    found = artifacts(lab, done.id)
    best = sorted(lab.trials(done.id), key=lambda t: t.value or 0.0)[-2:]
    first = lab.trials(done.id, "baseline")[0]
    kept = {trial for trial, one in found.items() if one.released_at is None}
    assert kept == {first.id, *(trial.id for trial in best)}
    assert sweep(lab) > 0
    assert sweep(lab) == 0, "there is nothing left to do"
    with lab.service() as service:
        for trial, one in found.items():
            if trial in kept:
                service.store.verify(one.digest)
                continue
            with pytest.raises(ArtifactLetGo, match=f"of trial {trial} was let go by retention"):
                service.store.checkout(one.digest)


def test_promoted_models_and_what_they_were_confirmed_by_stay(checked: Lab) -> None:
    lab = checked
    done = lab.run(
        program=saving(),
        budget={"trials": 6},
        promotion={"model": "toy", "profile": "quick"},
        retention={"checkpoints": "none"},
        parallel=4,
    )
    with lab.service() as service, service.ledger.read() as session:
        (pointer,) = reads.list_incumbents(session, "toy")
        families = reads.load_live(session, done.id).families
    assert families[-1].state is FamilyState.PROMOTED
    found = artifacts(lab, done.id)
    trials = {
        t.id: t for kind in ("baseline", "search", "replay") for t in lab.trials(done.id, kind)
    }
    first = lab.trials(done.id, "baseline")[0].id
    for trial_id, one in found.items():
        stays = trials[trial_id].candidate_id == pointer.candidate_id or trial_id == first
        assert (one.released_at is None) == stays, trial_id
    assert sweep(lab) > 0


def test_a_study_without_the_section_lets_go_of_nothing(checked: Lab) -> None:
    done = checked.run(program=saving(), budget={"trials": 3})
    assert all(one.released_at is None for one in artifacts(checked, done.id).values())
    assert sweep(checked) == 0


@pytest.mark.slow
def test_a_file_stays_while_another_tree_holds_it(checked: Lab) -> None:
    lab = checked
    whole = {
        "kind": "command",
        "argv": ["/bin/sh", "-c", READ_X + NOTE + SAVE.replace("-$ARL_ATTEMPT", "")],
    }
    keeps = lab.run(program=whole, budget={"trials": 2}, name="keeps")
    drops = lab.run(
        program=whole, budget={"trials": 2}, name="drops", retention={"checkpoints": "none"}
    )
    sweep(lab)
    dropped = [one for one in artifacts(lab, drops.id).values() if one.released_at is not None]
    assert dropped
    with lab.service() as service:
        for one in artifacts(lab, keeps.id).values():
            service.store.verify(one.digest)
        for one in dropped:
            service.store.verify(one.digest)  # the other study has the very same trees


@pytest.mark.slow
def test_a_failed_and_a_cancelled_study_let_go_too(checked: Lab) -> None:
    lab = checked
    lab.expects_ends = False
    study_id = lab.submit(
        program=saving(), budget={"trials": 5}, retention={"checkpoints": "none"}
    )
    worker = lab.worker(study_id)
    lab.wait_for(lambda: len(lab.trials(study_id)) > 2, "it searches")
    lab.ask(study_id, CommandVerb.CANCEL)
    assert worker.join() == 0
    found = artifacts(lab, study_id)
    leader = {
        e.payload["candidate_id"]
        for e in lab.entries(study_id, "trial_decided")
        if e.payload["verdict"] == "keep"
    }
    kept = [trial for trial, one in found.items() if one.released_at is None]
    assert len(kept) <= 1 + len(leader)


@pytest.mark.slow
def test_a_checkout_that_is_linked_to_the_store_goes_with_it(checked: Lab) -> None:
    lab = checked
    done = lab.run(
        program=saving(WEIGHTS.replace("/dev/zero", "/dev/urandom")),
        budget={"trials": 3},
        retention={"checkpoints": "best-1"},
    )
    before = os.statvfs(lab.home).f_bavail
    assert sweep(lab) >= BIG
    freed = (os.statvfs(lab.home).f_bavail - before) * os.statvfs(lab.home).f_frsize
    assert freed > BIG
    found = artifacts(lab, done.id)
    trees = {path.name for path in (lab.home / "artifacts" / "trees").iterdir()}
    assert not trees & {one.digest for one in found.values() if one.released_at is not None}


def test_a_kill_between_the_entry_and_the_bytes_is_made_good_by_the_next_sweep(
    checked: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = checked
    done = lab.run(program=saving(), budget={"trials": 5}, retention={"checkpoints": "best-1"})
    gone = {one.digest for one in artifacts(lab, done.id).values() if one.released_at is not None}
    with lab.service() as service:
        with service.ledger.read() as session:
            found = find_unneeded(session, service.store, orphans=False, graces=NOW)
        files = [one for one in found if not one.is_checkout]
        discard(service.store, [*files[: len(files) // 2]])  # and then it is killed
    assert sweep(lab) > 0
    objects = lab.home / "artifacts" / "objects"
    assert not [d for d in gone if (objects / d[:2] / d[2:]).exists()]


def test_what_was_just_stored_waits(checked: Lab) -> None:
    lab = checked
    lab.run(program=saving(), budget={"trials": 4}, retention={"checkpoints": "best-1"})
    with lab.service() as service:
        with service.ledger.read() as session:
            found = find_unneeded(session, service.store, orphans=True)
        assert found
        assert all(one.wait_s > 0 for one in found)
        assert discard(service.store, found) == 0


@pytest.mark.slow
def test_logs_are_cut_and_say_so(checked: Lab) -> None:
    lab = checked
    loud = 'i=0; while [ $i -lt 400 ]; do echo "line $i of a long story"; i=$((i+1)); done; '
    done = lab.run(program=saving(loud), budget={"trials": 2}, retention={"logs": "1kB"})
    logs = lab.home / "local" / "logs"
    trial = lab.trials(done.id)[0]

    def size() -> int:
        return sum(path.stat().st_size for path in logs.glob(f"arl-{trial.id}.*"))

    lab.wait_for(lambda: size() <= 1000, "the logs are cut")
    with lab.service() as service:
        (target,) = service.used_targets()
        name = f"arl-{trial.id}.t-0"
        chunk = target.read_log(name, offset=0, limit=100_000)
        rest = target.read_log(name, offset=chunk.offset + len(chunk.data), limit=100_000)
    assert b"bytes of output dropped" in chunk.data
    assert rest.data.endswith(b"line 399 of a long story\n")


@pytest.mark.slow
def test_files_that_trials_share_are_swept_while_trials_store_them_again(
    checked: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With graces of seconds, so that a file goes and comes back many times while it runs."""
    lab = checked
    monkeypatch.setattr(objects, "RELIED_ON_S", 0.2)
    slow = "sleep 0.$((RANDOM % 4 + 1)); "
    program = {"kind": "command", "argv": ["/bin/bash", "-c", READ_X + NOTE + slow + SAVE]}
    study_id = lab.submit(
        program=program,
        budget={"trials": 80},
        parallel=4,
        retention={"checkpoints": "none"},
        space={"x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.05}},
        proposer={"name": "random"},
    )
    worker = lab.worker(study_id)
    graces, swept = Graces(let_go_s=4.0, orphan_s=4.0), 0
    with lab.service() as service:
        while not worker.ended():
            with service.ledger.read() as session:
                found = find_unneeded(session, service.store, orphans=False, graces=graces)
            swept += sum(not one.wait_s for one in found)
            discard(service.store, found)
    assert worker.join() == 0
    assert lab.study(study_id).state is StudyState.COMPLETED
    assert swept > 20
