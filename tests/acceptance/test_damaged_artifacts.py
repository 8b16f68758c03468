"""An artifact that is damaged where it is stored is never scored and never promoted."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from controller.steps import evidence
from controller.steps.context import StepContext
from ledger import reads
from ledger.records import Split, TrialKind
from ledger.states import AttemptState, FamilyState, Reason, StudyState, TrialState
from tests.acceptance.lab import Lab


def stored(lab: Lab, digest: str) -> Path:
    return lab.home / "artifacts" / "objects" / digest[:2] / digest[2:]


class Damage:
    """Overwrites the model of a trial before it is first used, and mends it when asked."""

    def __init__(self, lab: Lab, kind: TrialKind, value: bytes) -> None:
        self._lab, self._kind, self._value = lab, kind, value
        self._was: tuple[Path, bytes] | None = None
        self.trial = ""

    def look(self, driver: Any) -> None:
        """On every tick: its training is collected, its evaluation intended and not started."""
        for trial in driver.view.live.values():
            attempt = trial.attempt
            if (
                self._was is None
                and trial.kind is self._kind
                and trial.state is TrialState.EVALUATING
                and attempt is not None
                and attempt.state is AttemptState.LAUNCHING
            ):
                self._overwrite(driver, trial.model_digest)
                self.trial = trial.id

    def _overwrite(self, driver: Any, tree: str) -> None:
        store = driver.snapshot().store
        ((_, _, _, digest),) = store.manifest(tree)
        path = stored(self._lab, digest)
        self._was = (path, path.read_bytes())
        path.chmod(0o600)
        path.write_bytes(self._value)

    def mend(self) -> None:
        assert self._was is not None, "nothing was damaged"
        self._was[0].write_bytes(self._was[1])


def test_a_model_damaged_before_it_was_scored_is_never_scored(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 3})
    damage = Damage(lab, TrialKind.SEARCH, b"0.9\n")
    study = lab.drive(study_id, on_tick=damage.look)
    damage.mend()
    assert study.state is StudyState.COMPLETED
    damaged = next(t for t in lab.trials(study_id) if t.id == damage.trial)
    assert (damaged.state, damaged.reason, damaged.value) == (
        TrialState.FAILED,
        Reason.ARTIFACT_CORRUPT,
        None,
    )
    assert [t.value for t in lab.trials(study_id) if t is not damaged][1:] == [0.2, 0.3]


def test_a_winner_damaged_before_its_promotion_is_not_promoted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = evidence.confirmed_artifact
    mend: list[tuple[Path, bytes]] = []

    def damaged(ctx: StepContext, family_id: str, candidate_id: str) -> str:
        tree = find(ctx, family_id, candidate_id)
        ((_, _, _, digest),) = ctx.store.manifest(tree)
        path = stored(lab, digest)
        mend.append((path, path.read_bytes()))
        path.chmod(0o600)
        path.write_bytes(b"1.0\n")
        return tree

    monkeypatch.setattr(evidence, "confirmed_artifact", damaged)
    study_id = lab.submit(
        budget={"trials": 3}, promotion={"model": "toy", "profile": "quick"}, noise={}
    )
    study = lab.drive(study_id)
    path, content = mend[0]
    path.write_bytes(content)
    assert study.state is StudyState.COMPLETED
    with lab.service() as service, service.ledger.read() as session:
        assert reads.latest_incumbent(session, "toy") is None
        (family,) = reads.list_families(session, study_id)
    assert (family.state, family.reason) == (FamilyState.DECLINED, Reason.ARTIFACT_CORRUPT)


def test_an_evaluator_damaged_where_it_is_stored_ends_the_study_at_the_next_score(
    lab: Lab,
) -> None:
    mend: list[tuple[Path, bytes]] = []

    def damage(driver: Any) -> None:
        trial = next((t for t in driver.view.live.values() if t.kind is TrialKind.SEARCH), None)
        if mend or trial is None or trial.state is not TrialState.EVALUATING:
            return
        split = driver.snapshot().bundle.splits[Split.SEARCH]
        ((_, _, _, digest),) = driver.snapshot().store.manifest(split)
        path = stored(lab, digest)
        mend.append((path, path.read_bytes()))
        path.chmod(0o600)
        path.write_bytes(b"{}\n")
        shutil.rmtree(lab.home / "artifacts" / "trees" / split, onerror=_insist)

    study = lab.drive(lab.submit(budget={"trials": 3}), on_tick=damage)
    mend[0][0].write_bytes(mend[0][1])
    assert (study.state, study.reason) == (StudyState.FAILED, Reason.ARTIFACT_CORRUPT)


def _insist(function: Any, path: str, _: Any) -> None:
    Path(path).parent.chmod(0o700)
    function(path)
