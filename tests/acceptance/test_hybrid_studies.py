"""Whole studies in which parameters and patches take turns."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.steps.loading import load_view
from controller.wiring import Service
from controller.worker.driver import StudyDriver
from controller.worker.loop import Callbacks
from ledger import reads
from ledger.records import Candidate, Resource, Trial
from ledger.search import FinishedTrial
from ledger.states import Reason, StudyState, TrialState
from tests import model_endpoint as m
from tests.acceptance.llm_study import (
    PRICE,
    QUICK,
    calls,
    changes_rate,
    line_of,
    patched,
    problems,
    search_trials,
)
from tests.acceptance.shell_study import drive, open_service, submit
from tests.cli_runs import Arl

# The score is the rate, which patches raise, less the distance of the parameter x from 0.6.
TRAIN = (
    '. ./rate.sh; x=$(sed -n \'s/.*"x": *\\([0-9.e-]*\\).*/\\1/p\' "$ARL_PARAMS"); '
    'mkdir -p "$ARL_OUTPUT/model"; '
    'awk -v r="$RATE" -v x="$x" \'BEGIN { d = x - 0.6; if (d < 0) d = -d; '
    'v = r - d / 4; if (v < 0) v = 0; print v }\' > "$ARL_OUTPUT/model/x"'
)
SPACE = {"x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.05}}


def hybrid(url: str, *first: dict[str, Any], **options: Any) -> dict[str, Any]:
    endpoints = [{"url": url, "model": "scripted", "price": PRICE}]
    patches = {"name": "llm_diff", "options": {**QUICK, "parents": "best"}}
    arms = [*(first or ({"name": "random"},)), patches]
    return {"name": "hybrid", "options": {"arms": arms, "endpoints": endpoints, **options}}


def mixed(service: Service, base: Path, proposer: dict[str, Any], **changes: Any) -> str:
    def given(**program: Any) -> dict[str, Any]:
        return {
            "kind": "command",
            "argv": ["/bin/sh", "-c", TRAIN],
            "source": "./program",
            "mutable": ["rate.sh"],
            "mutable_reason": "rate.sh sets a number",
            "brief": "./brief.md",
            **program,
        }

    return patched(service, base, proposer, program=given(), space=SPACE, **changes)


def arms(service: Service, study_id: str) -> list[str]:
    return [c.proposer.removeprefix("hybrid/") for c in candidates(service, study_id)]


def candidates(service: Service, study_id: str) -> list[Candidate]:
    with service.ledger.read() as session:
        return [
            reads.get_candidate(session, trial.candidate_id)
            for trial in search_trials(service, study_id)
        ]


def best(trials: list[Trial]) -> float:
    return max(trial.value or 0.0 for trial in trials)


def raises_rate(asked: m.Asked, **how: Any) -> m.Behaviour:
    """A model that goes on for long: each of its patches is another one."""
    source = asked.prompt.partition("## Current source")[2]
    rate = re.findall(r"^RATE=([0-9.]+)$", source, re.MULTILINE)[0]
    better = round(float(rate) + 0.01 + asked.number / 1000, 4)
    return m.says(
        f"More.\n\nrate.sh\n<<<<<<< SEARCH\nRATE={rate}\n=======\n"
        f"RATE={better}\n>>>>>>> REPLACE\n",
        **how,
    )


@pytest.fixture
def endpoint() -> Iterator[m.ModelEndpoint]:
    with m.model_endpoint(changes_rate) as opened:
        yield opened


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path, ARL_ALLOW_UNSANDBOXED_PATCHES="1")
    yield opened
    opened.close()


def test_parameters_improve_then_patches_then_parameters_on_the_patched_program(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    proposer = hybrid(endpoint.url, patience=3, failures=2)
    study_id = mixed(service, tmp_path, proposer, budget={"trials": 20})
    study = drive(service, study_id)
    trials, made = search_trials(service, study_id), candidates(service, study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    turns = arms(service, study_id)
    patching = turns.index("llm_diff")
    again = turns.index("random", patching)
    assert set(turns[:patching]) == {"random"}
    assert best(trials[:patching]) > 0.3 - 0.55 / 4 + 0.02
    assert best(trials[:again]) > best(trials[:patching]) + 0.1
    # A patch has the parameters of what it improves, and those that follow are tried on it.
    assert made[patching].params == leader(trials[:patching], made).params
    assert made[again].parent_id == leader(trials[:again], made).id
    assert made[again].patch is None
    assert made[again].source_digest == leader(trials[:again], made).source_digest
    assert made[again].source_digest != made[0].source_digest
    # Neither arm alone comes as far: patches at the default x, or x at the first rate.
    assert best(trials) > max(0.95 - 0.55 / 4, 0.3)
    assert problems(service) == []


def leader(trials: list[Trial], made: list[Candidate]) -> Candidate:
    """The candidate of the last of the trials that was kept."""
    kept = [trial.candidate_id for trial in trials if trial.reason is Reason.BETTER]
    return next(candidate for candidate in made if candidate.id == kept[-1])


def test_an_endpoint_that_goes_away_leaves_its_turns_to_parameters_and_loses_nothing(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    def script(asked: m.Asked) -> m.Behaviour:
        return m.sends(503) if 2 <= asked.number < 6 else raises_rate(asked)

    endpoint.script = script
    proposer = hybrid(endpoint.url, patience=2, failures=2)
    study_id = mixed(service, tmp_path, proposer, budget={"trials": 16})
    study = drive(service, study_id)
    outcomes = [call["outcome"] for call in calls(service, study_id)]
    turns = arms(service, study_id)
    assert (study.state, len(turns)) == (StudyState.COMPLETED, 16)
    assert outcomes[2:6] == ["server_error"] * 4
    assert turns.count("llm_diff") == outcomes.count("answered") > 2
    assert all(t.state is TrialState.COMPLETE for t in search_trials(service, study_id))
    assert line_of(service, study_id, Resource.LLM_TOKENS).spent == 120 * turns.count("llm_diff")
    assert problems(service) == []


def test_patches_that_fail_give_the_turn_back(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = m.in_turn(m.says("I do not know what to change."))
    proposer = hybrid(endpoint.url, patience=2, failures=2)
    study_id = mixed(service, tmp_path, proposer, budget={"trials": 12})
    drive(service, study_id)
    turns = arms(service, study_id)
    first = turns.index("llm_diff")
    assert turns[first : first + 3] == ["llm_diff", "llm_diff", "random"]
    assert problems(service) == []


def test_a_hybrid_without_models_is_told_exact_scores_and_one_with_them_by_the_ladder(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    told: list[bool] = []

    def watch(driver: StudyDriver) -> None:
        asked = driver.snapshot().asked
        if asked is not None:
            told.append(asked.history.is_released)

    study_id = mixed(service, tmp_path, hybrid(endpoint.url), budget={"trials": 2})
    drive(service, study_id, Callbacks(on_tick=watch))
    assert set(told) == {True}


def test_a_controller_that_is_killed_chooses_the_same_arms_afterwards(tmp_path: Path) -> None:
    chosen = {
        "name": "hybrid",
        "options": {
            "mode": "bandit",
            "cost": "trials",
            "arms": [{"name": "random"}, {"name": "grid"}],
        },
    }
    space = {"x": {**SPACE["x"], "step": 0.01}}
    study = {"proposer": chosen, "space": space, "budget": {"trials": 14}, "parallel": 1}
    whole = open_service(tmp_path / "whole")
    undisturbed = submit(whole, tmp_path / "whole", **study)
    drive(whole, undisturbed)
    service = open_service(tmp_path / "killed")
    killed = submit(service, tmp_path / "killed", **study)
    arl = Arl(tmp_path / "killed")
    for wanted in (4, 9):
        worker = arl.start("resume", killed)
        while len(search_trials(service, killed)) < wanted and worker.poll() is None:
            time.sleep(0.02)
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
    drive(service, killed)
    assert arms(service, killed) == arms(whole, undisturbed)
    assert {"random", "grid"} == set(arms(whole, undisturbed))
    assert [c.params for c in candidates(service, killed)] == [
        c.params for c in candidates(whole, undisturbed)
    ]
    assert problems(service) == []
    whole.close()
    service.close()


def test_parameters_go_on_when_the_budget_of_tokens_leaves_no_room_for_a_model(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = lambda asked: raises_rate(asked, tokens=(8_000, 900))
    proposer = hybrid(endpoint.url, patience=1, failures=1)
    proposer["options"]["arms"][1]["options"]["max_tokens"] = 1000
    budget = {"trials": 10, "llm_tokens": 40_000}
    study_id = mixed(service, tmp_path, proposer, budget=budget)
    study = drive(service, study_id)
    turns = arms(service, study_id)
    line = line_of(service, study_id, Resource.LLM_TOKENS)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    assert 1 <= turns.count("llm_diff") <= 4
    assert turns[-4:] == ["random"] * 4
    assert (line.reserved, line.overrun) == (0, 0)
    assert line.spent == 8_900 * turns.count("llm_diff")
    assert problems(service) == []


def test_a_study_that_is_read_again_knows_what_its_trials_took(
    tmp_path: Path, service: Service
) -> None:
    chosen = {
        "name": "hybrid",
        "options": {"mode": "bandit", "arms": [{"name": "random"}, {"name": "grid"}]},
    }
    space = {"x": {**SPACE["x"], "step": 0.01}}
    seen: list[FinishedTrial] = []

    def watch(driver: StudyDriver) -> None:
        seen[:] = driver.snapshot().view.finished

    study_id = submit(service, tmp_path, proposer=chosen, space=space, budget={"trials": 6})
    drive(service, study_id, Callbacks(on_tick=watch))
    with service.ledger.read() as session:
        again = load_view(session, study_id).finished
    assert len(seen) == 6
    assert again == seen
    assert all(trial.wall_s > 0.0 for trial in again)
    assert {trial.proposer for trial in again} == {"hybrid/random", "hybrid/grid"}
