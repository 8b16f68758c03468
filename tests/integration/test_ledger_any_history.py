"""Whatever legal history is recorded, its chain rebuilds its rows and its budgets add up."""

import random
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import reads
from ledger.database import open_ledger
from ledger.entries import BudgetChanged, Entry, TrialServed
from ledger.errors import ArlError, BudgetExceeded
from ledger.records import Resource, Split, TrialKind, Verdict
from ledger.states import AttemptState, StudyState, TrialState
from ledger.verify import verify_ledger
from tests.ledger_builders import Driven, driven

TRIAL_LIMIT, GPU_LIMIT = 6, 40.0


class History:
    """A worker that does legal things in random order, several in one transaction."""

    def __init__(self, study: Driven, rng: random.Random) -> None:
        self.study = study
        self.rng = rng
        self.next_number = 0
        self.index: dict[int, int] = {}
        self.phase: dict[int, str] = {}
        self.gpu: dict[int, float] = {}

    def propose(self) -> list[Entry]:
        number = self.next_number
        done = [n for n, phase in self.phase.items() if phase == "complete"]
        proposed = self.study.proposed(number)
        if done and self.rng.random() < 0.3:
            original = self.rng.choice(done)
            self.study.finished += 1
            entries: list[Entry] = [
                self.study.proposed(number, of_candidate=original),
                TrialServed(
                    trial_id=self.study.trial(number),
                    of_trial=self.study.trial(original),
                    value=1.0,
                    finish_seq=self.study.finished,
                ),
            ]
            self.phase[number] = "served"
        else:
            self.gpu[number] = float(self.rng.choice((0, 5, 9)))
            entries = [proposed, self.study.launching(number, gpu_s=self.gpu[number])]
            self.phase[number] = "launching"
            self.index[number] = 0
        self.next_number += 1
        return entries

    def advance(self, number: int) -> list[Entry]:
        study, rng, index = self.study, self.rng, self.index[number]
        phase = self.phase[number]
        if rng.random() < 0.15:
            return self.fail(number)
        if phase == "launching":
            self.phase[number] = "training"
            return [study.started(number, index=index)]
        if phase == "training":
            if index == 0 and rng.random() < 0.5:
                self.phase[number] = "reported"
                values = [(step, "loss", rng.choice((1.5, float("nan")))) for step in range(3)]
                return [study.values(number, 0, values)]
            self.phase[number] = "reported"
            return []
        if phase == "reported":
            self.phase[number] = "scoring"
            return [
                study.exited(number, index=index, gpu_s=rng.choice((0.0, 3.0, 30.0))),
                study.saved(number, index=index),
                study.launching(number, split=Split.SEARCH),
            ]
        self.phase[number] = "complete"
        verdict = rng.choice((Verdict.KEEP, Verdict.DISCARD))
        return [
            study.started(number, split=Split.SEARCH),
            study.exited(number, split=Split.SEARCH),
            study.scored(number, 1.0, items=(1.0, 0.0)),
            study.decided(number, 1.0, verdict=verdict),
        ]

    def fail(self, number: int) -> list[Entry]:
        """The attempt is lost and tried again once, or the trial ends."""
        study, index = self.study, self.index[number]
        phase = self.phase[number]
        current = AttemptState.LAUNCHING if phase == "launching" else AttemptState.RUNNING
        if phase == "scoring":
            self.phase[number] = "failed"
            return [study.ended(number, TrialState.EVALUATING)]
        lost = study.ended_attempt(number, current, index=index)
        if index == 0 and phase != "launching":
            self.index[number] = 1
            self.phase[number] = "launching"
            return [lost, study.launching(number, index=1)]
        self.phase[number] = "failed"
        trial = TrialState.PROPOSED if (phase, index) == ("launching", 0) else TrialState.RUNNING
        return [lost, study.ended(number, trial)]

    def live(self) -> list[int]:
        ended = ("complete", "failed", "served")
        return [number for number, phase in self.phase.items() if phase not in ended]

    def tick(self) -> list[Entry]:
        entries: list[Entry] = []
        for number in self.live():
            if self.rng.random() < 0.7:
                entries += self.advance(number)
        if self.rng.random() < 0.6:
            entries += self.propose()
        return entries


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_any_legal_history_verifies(tmp_path: Path, seed: int) -> None:
    path = tmp_path / f"{seed}.db"
    path.unlink(missing_ok=True)
    ledger = open_ledger(path, create=True)
    limits = {Resource.TRIALS: TRIAL_LIMIT, Resource.GPU_S: GPU_LIMIT, Resource.WALL_S: 5.0}
    study = driven(ledger, budgets=limits)
    study.run_study()
    rng = random.Random(seed)
    history = History(study, rng)
    active_s = 0.0
    for _ in range(25):
        saved = (dict(history.phase), dict(history.index), history.next_number, study.finished)
        entries = history.tick()
        active_s += rng.random()
        try:
            study.record(*entries, active_s=active_s)
        except BudgetExceeded:
            history.phase, history.index, history.next_number, study.finished = saved
            active_s = recorded_active(study)
            if rng.random() < 0.3:
                study.record(BudgetChanged(resource=Resource.GPU_S, limit=None))
        check_budgets(study)
    assert verify_ledger(ledger, None) == []
    with ledger.read() as session:
        live = reads.load_live(session, "s1")
    assert [t.number for t in live.trials] == sorted(history.live())
    assert live.search_count == history.next_number
    assert len(live.finished) == history.next_number - len(live.trials)
    assert live.study.state is StudyState.RUNNING
    assert all(t.kind is TrialKind.SEARCH for t in live.trials)
    ledger.close()


def recorded_active(study: Driven) -> float:
    with study.ledger.read() as session:
        return reads.get_study(session, "s1").active_s


def check_budgets(study: Driven) -> None:
    """At every commit: spent and reserved within the limit, nothing below zero."""
    with study.ledger.read() as session:
        for line in reads.load_budgets(session, "s1").values():
            assert min(line.spent, line.reserved, line.overrun) >= 0
            if line.limit is not None:
                assert line.spent + line.reserved <= line.limit + 1e-6
            if line.limit is None:
                assert line.overrun == 0


def test_a_history_that_is_refused_is_not_half_recorded(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l.db", create=True)
    study = driven(ledger)
    history = History(study, random.Random(4))
    refused = 0
    for _ in range(30):
        entries = history.tick()
        wrong = [*entries, study.exited(99)]
        try:
            study.record(*wrong)
        except ArlError:
            refused += 1
        study.record(*entries)
    assert refused == 30
    assert verify_ledger(ledger, None) == []
    ledger.close()
