"""Studies with a plan: it is stored whole, its program is told, and a wrong one costs nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.wiring import Service
from ledger import reads
from ledger.records import Resource, Trial
from ledger.states import Reason, StudyState, TrialState
from tests import model_endpoint as m
from tests.acceptance.llm_study import line_of, problems, proposer, search_trials
from tests.acceptance.shell_study import TRAIN, drive, open_service, submit

PLAN = {"stage": "online_rl", "train_precision": "bf16", "rollout": "disaggregated"}
SPACE = {
    "x": {"type": "float", "low": 0.1, "high": 0.4, "step": 0.1, "default": 0.1},
    "rollout_precision": {"type": "categorical", "choices": ["bf16", "fp8"]},
    "correction": {"type": "categorical", "choices": ["none", "tis"]},
}
"""16 points, 4 of which let FP8 actors go uncorrected."""
NO_CORRECTION = "BF16 trainer with FP8/INT8 rollouts needs an importance correction"


def planned(**plan: str) -> dict[str, Any]:
    return {"kind": "command", "argv": ["/bin/sh", "-c", TRAIN], "plan": {**PLAN, **plan}}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path)
    yield opened
    opened.close()


def is_wrong(service: Service, trial: Trial) -> bool:
    with service.ledger.read() as session:
        params = reads.get_candidate(session, trial.candidate_id).params
    return params["rollout_precision"] == "fp8" and params["correction"] == "none"


@pytest.mark.parametrize("name", ["grid", "random", "tpe"])
def test_a_wrong_plan_is_never_proposed(tmp_path: Path, service: Service, name: str) -> None:
    study_id = submit(
        service,
        tmp_path,
        program=planned(),
        space=SPACE,
        proposer={"name": name},
        budget={"trials": 50},
        parallel=4,
    )
    study = drive(service, study_id)
    trials = search_trials(service, study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.SPACE_EXHAUSTED)
    assert len(trials) == 12
    assert {t.state for t in trials} == {TrialState.COMPLETE}
    assert not any(is_wrong(service, trial) for trial in trials)


def test_a_model_s_wrong_plan_costs_no_trial_and_it_is_told_why(
    tmp_path: Path, service: Service
) -> None:
    wrong = {"x": 0.2, "rollout_precision": "fp8", "correction": "none"}
    right = {**wrong, "correction": "tis"}

    def script(asked: m.Asked) -> m.Behaviour:
        return m.proposes(wrong if asked.number == 0 else {**right, "x": 0.1 * asked.number})

    with m.model_endpoint(script) as endpoint:
        study_id = submit(
            service,
            tmp_path,
            program=planned(),
            space=SPACE,
            proposer=proposer("llm", endpoint.url),
            budget={"trials": 2},
        )
        study = drive(service, study_id)
        told = endpoint.asked[1].prompt
    trials = search_trials(service, study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    assert [t.state for t in trials] == [TrialState.FAILED, *[TrialState.COMPLETE] * 2]
    assert trials[0].reason is Reason.INVALID_PLAN
    assert trials[0].detail.startswith(f"correction: 'none': {NO_CORRECTION}; write correction:")
    assert NO_CORRECTION in told
    with service.ledger.read() as session:
        assert list(reads.get_trial(session, trials[0].id).attempts) == []
    line = line_of(service, study_id, Resource.TRIALS)
    assert (line.spent, line.reserved, line.overrun) == (2, 0, 0)
    assert problems(service) == []


def test_a_model_with_nothing_but_wrong_plans_ends_the_study(
    tmp_path: Path, service: Service
) -> None:
    def script(asked: m.Asked) -> m.Behaviour:
        x = round(0.1 + 0.001 * asked.number, 4)
        return m.proposes({"x": x, "rollout_precision": "fp8", "correction": "none"})

    with m.model_endpoint(script) as endpoint:
        space = {**SPACE, "x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.1}}
        study_id = submit(
            service,
            tmp_path,
            program=planned(),
            space=space,
            proposer=proposer("llm", endpoint.url),
            stop={"consecutive_failures": 3},
        )
        study = drive(service, study_id)
    assert study.reason is Reason.CONSECUTIVE_FAILURES
    assert len(search_trials(service, study_id)) == 3
    assert line_of(service, study_id, Resource.TRIALS).spent == 0


def test_the_whole_plan_is_stored_and_the_program_is_told(
    tmp_path: Path, service: Service
) -> None:
    study_id = submit(
        service,
        tmp_path,
        program=planned(correction="tis"),
        space={name: SPACE[name] for name in ("x", "rollout_precision")},
        proposer={"name": "grid"},
        budget={"trials": 8},
    )
    study = drive(service, study_id)
    stored = study.spec["program"]
    assert isinstance(stored, dict)
    plan = stored["plan"]
    assert isinstance(plan, dict)
    assert (plan["sync"], plan["optimizer"], plan["group_size"]) == ("full", "grpo", 8)
    assert plan["rollout_precision"] is None  # it is searched
    for trial in search_trials(service, study_id):
        with service.ledger.read() as session:
            params = reads.get_candidate(session, trial.candidate_id).params
            detail = reads.get_trial(session, trial.id)
        models = [a.digest for a in detail.artifacts if a.role == "model"]
        if not models:
            assert trial.reason is Reason.DUPLICATE  # of the baseline
            continue
        document = json.loads((service.store.checkout(models[0]) / "params.json").read_text())
        assert document["plan"]["rollout_precision"] == params["rollout_precision"]
        assert document["plan"]["correction"] == "tis"
