"""Budgets are an invariant of the database: reserved when admitted, settled when measured."""

import pytest
from sqlalchemy import text

from ledger import reads
from ledger.database import Ledger
from ledger.entries import BudgetChanged, TrialServed
from ledger.errors import BudgetExceeded, InvalidInput
from ledger.records import BudgetLine, Resource, TrialKind, Verdict
from ledger.states import AttemptState, Reason, TrialState
from tests.ledger_builders import driven, everything


def budget(ledger: Ledger, resource: Resource, study_id: str = "s1") -> BudgetLine:
    with ledger.read() as session:
        return reads.load_budgets(session, study_id)[resource]


def test_a_trial_is_reserved_then_spent(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.TRIALS: 2})
    study.record(study.proposed(0))
    line = budget(ledger, Resource.TRIALS)
    assert (line.limit, line.spent, line.reserved) == (2, 0, 1)
    study.record(study.ended(0, TrialState.PROPOSED))
    line = budget(ledger, Resource.TRIALS)
    assert (line.spent, line.reserved, line.overrun) == (1, 0, 0)


def test_no_trial_fits_beyond_the_limit(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.TRIALS: 1})
    study.record(study.proposed(0))
    before = everything(ledger)
    with pytest.raises(BudgetExceeded, match="trials"):
        study.record(study.proposed(1))
    assert everything(ledger) == before


def test_baselines_and_replays_are_not_search_trials(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.TRIALS: 0})
    study.whole_trial(0, 1.0, kind=TrialKind.BASELINE, verdict=Verdict.MEASURED)
    assert budget(ledger, Resource.TRIALS).spent == 0


def test_a_served_duplicate_spends_its_trial(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.TRIALS: 2})
    study.whole_trial(0, 1.0)
    served = TrialServed(trial_id="s1-t1", of_trial="s1-t0", value=1.0, finish_seq=2)
    study.record(study.proposed(1, of_candidate=0), served)
    line = budget(ledger, Resource.TRIALS)
    assert (line.spent, line.reserved) == (2, 0)
    with ledger.read() as session:
        trial = reads.get_trial(session, "s1-t1").trial
    assert (trial.state, trial.value, trial.reason) == (
        TrialState.COMPLETE,
        1.0,
        Reason.DUPLICATE,
    )


def test_gpu_time_settles_at_what_was_measured(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.GPU_S: 100})
    study.record(study.proposed(0), study.launching(0, gpu_s=60))
    assert budget(ledger, Resource.GPU_S).reserved == 60
    study.record(study.started(0), study.exited(0, gpu_s=20))
    line = budget(ledger, Resource.GPU_S)
    assert (line.spent, line.reserved, line.overrun) == (20, 0, 0)


def test_what_passes_the_limit_is_overrun(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.GPU_S: 100})
    study.record(study.proposed(0), study.launching(0, gpu_s=60), study.started(0))
    study.record(study.exited(0, gpu_s=130))
    line = budget(ledger, Resource.GPU_S)
    assert (line.spent, line.reserved, line.overrun) == (100, 0, 30)
    study.record(BudgetChanged(resource=Resource.GPU_S, limit=120))
    line = budget(ledger, Resource.GPU_S)
    assert (line.limit, line.spent, line.overrun) == (120, 120, 10)


def test_overrun_leaves_other_reservations_their_room(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.GPU_S: 100})
    study.record(study.proposed(0), study.launching(0, gpu_s=50), study.started(0))
    study.record(study.proposed(1), study.launching(1, gpu_s=50), study.started(1))
    study.record(study.exited(0, gpu_s=80))
    line = budget(ledger, Resource.GPU_S)
    assert (line.spent, line.reserved, line.overrun) == (50, 50, 30)


def test_a_lost_attempt_is_charged_its_reservation(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.GPU_S: 100})
    study.record(study.proposed(0), study.launching(0, gpu_s=60), study.started(0))
    study.record(study.ended_attempt(0, AttemptState.RUNNING))
    line = budget(ledger, Resource.GPU_S)
    assert (line.spent, line.reserved) == (60, 0)


def test_an_attempt_that_never_ran_costs_nothing(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.GPU_S: 100})
    study.record(study.proposed(0), study.launching(0, gpu_s=60))
    study.record(study.ended_attempt(0, AttemptState.LAUNCHING, AttemptState.CANCELLED))
    line = budget(ledger, Resource.GPU_S)
    assert (line.spent, line.reserved) == (0, 0)


def test_wall_time_is_spent_up_to_the_limit(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.WALL_S: 10})
    study.record(active_s=4.0)
    assert budget(ledger, Resource.WALL_S).spent == 4
    study.record(active_s=12.5)
    line = budget(ledger, Resource.WALL_S)
    assert (line.spent, line.overrun) == (10, 2.5)
    with ledger.read() as session:
        assert reads.get_study(session, "s1").active_s == 12.5


def test_a_limit_cannot_fall_below_what_is_used(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.TRIALS: 5})
    study.record(study.proposed(0), study.proposed(1))
    with pytest.raises(BudgetExceeded, match="trials"):
        study.record(BudgetChanged(resource=Resource.TRIALS, limit=1))


def test_the_database_refuses_a_line_beyond_its_limit(ledger: Ledger) -> None:
    driven(ledger, budgets={Resource.TRIALS: 5})
    with pytest.raises(BudgetExceeded), ledger.write() as session:
        session.connection.execute(text("UPDATE budgets SET spent = 6 WHERE resource = 'trials'"))


def test_a_negative_limit_is_refused_by_name(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match=r"budget\.trials: -1"):
        driven(ledger, budgets={Resource.TRIALS: -1})
