"""Whole studies whose proposer is a language model: a scripted server."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.wiring import Service
from ledger import reads
from ledger.records import Resource
from ledger.states import Reason, StudyState, TrialState
from tests import model_endpoint as m
from tests.acceptance.llm_study import (
    calls,
    changes_rate,
    climbs,
    line_of,
    patched,
    problems,
    proposer,
    search_trials,
)
from tests.acceptance.shell_study import drive, open_service, submit
from tests.cli_runs import Arl, arl_in


@pytest.fixture
def endpoint() -> Iterator[m.ModelEndpoint]:
    with m.model_endpoint(climbs) as opened:
        yield opened


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path, ARL_ALLOW_UNSANDBOXED_PATCHES="1")
    yield opened
    opened.close()


def test_a_model_finds_a_good_x_from_what_it_is_told(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    study_id = submit(
        service, tmp_path, proposer=proposer("llm", endpoint.url), budget={"trials": 6}
    )
    study = drive(service, study_id)
    trials = search_trials(service, study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    assert max(t.value or 0.0 for t in trials) >= 0.9
    assert len(calls(service, study_id)) == len(endpoint.asked) == 6
    assert problems(service) == []


def test_a_model_improves_a_program_patch_by_patch(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = changes_rate
    study_id = patched(service, tmp_path, proposer("llm_diff", endpoint.url, parents="best"))
    drive(service, study_id)
    trials = search_trials(service, study_id)
    assert [t.value for t in trials] == [0.5, 0.7, 0.9, 0.95]
    with service.ledger.read() as session:
        last = reads.get_candidate(session, trials[-1].candidate_id)
    assert last.rationale == "More rate, more score."
    assert last.parent_id == trials[-2].candidate_id
    assert "Raise RATE step by step." in endpoint.asked[0].prompt
    assert problems(service) == []


def test_a_parallel_study_asks_for_several_at_once_and_tells_what_runs(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    study_id = submit(
        service,
        tmp_path,
        proposer=proposer("llm", endpoint.url),
        budget={"trials": 6},
        parallel=3,
    )
    drive(service, study_id)
    trials = search_trials(service, study_id)
    assert "Propose 3 sets" in endpoint.asked[0].prompt
    assert len(trials) == 6
    assert all(t.state is TrialState.COMPLETE for t in trials)
    assert len({t.candidate_id for t in trials}) == 6
    assert problems(service) == []


def test_patches_of_one_batch_know_of_each_other(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    def script(asked: m.Asked) -> m.Behaviour:
        rate = 0.4 + asked.number / 10
        return m.says(
            f"More.\n\nrate.sh\n<<<<<<< SEARCH\nRATE=0.3\n=======\nRATE={rate}\n>>>>>>> REPLACE\n"
        )

    endpoint.script = script
    chosen = proposer("llm_diff", endpoint.url)
    study_id = patched(service, tmp_path, chosen, budget={"trials": 2}, parallel=2)
    drive(service, study_id)
    assert [t.value for t in search_trials(service, study_id)] == [0.4, 0.5]
    second = endpoint.asked[1].prompt.partition("## Changes tried or running")[2]
    assert "change proposed just now" in second
    assert "RATE=0.4" in second
    assert problems(service) == []


def test_a_budget_of_tokens_is_never_passed_and_ends_the_study(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = greedy
    budget = {"trials": 50, "llm_tokens": 60_000}
    study_id = submit(
        service,
        tmp_path,
        proposer=proposer("llm", endpoint.url, max_tokens=1000),
        budget=budget,
    )
    study = drive(service, study_id)
    line = line_of(service, study_id, Resource.LLM_TOKENS)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_LLM_TOKENS)
    assert 20_000 < line.spent <= 60_000
    assert (line.reserved, line.overrun) == (0, 0)
    assert len(search_trials(service, study_id)) == len(endpoint.asked) > 3
    assert problems(service) == []


def greedy(asked: m.Asked) -> m.Behaviour:
    """A model that uses every token it may."""
    used = (len(asked.prompt) + len(asked.system)) // 3, int(asked.body["max_tokens"])
    return m.proposes({"x": asked.number / 100}, tokens=used)


def test_a_budget_of_dollars_is_never_passed_and_ends_the_study(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = greedy
    study_id = submit(
        service,
        tmp_path,
        proposer=proposer("llm", endpoint.url, max_tokens=1000),
        budget={"trials": 50, "llm_cost_usd": 15},
    )
    study = drive(service, study_id)
    line = line_of(service, study_id, Resource.LLM_COST_USD)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_LLM_COST)
    assert 5 < line.spent <= 15
    assert line.overrun == 0
    assert problems(service) == []


def test_patches_that_stay_malformed_cost_tokens_and_no_compute(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    bad = "Raise it.\n\nrate.sh\n<<<<<<< SEARCH\nRATE=9\n=======\nRATE=0.5\n>>>>>>> REPLACE\n"
    same = bad.replace("RATE=9", "RATE=0.3").replace("RATE=0.5", "RATE=0.3")

    def script(asked: m.Asked) -> m.Behaviour:
        return m.says(bad if asked.number < 3 else same)

    endpoint.script = script
    study_id = patched(service, tmp_path, proposer("llm_diff", endpoint.url), budget={"trials": 2})
    drive(service, study_id)
    trials = search_trials(service, study_id)
    assert [(t.state, t.reason) for t in trials] == [
        (TrialState.FAILED, Reason.MALFORMED_PATCH),
        (TrialState.FAILED, Reason.NO_CHANGE),
    ]
    assert "'RATE=9' on are not in rate.sh" in trials[0].detail
    assert trials[0].detail in endpoint.asked[1].last
    assert [a.rounds for a in endpoint.asked] == [0, 1, 2] * 2
    with service.ledger.read() as session:
        assert list(reads.get_trial(session, trials[0].id).attempts) == []
    assert line_of(service, study_id, Resource.LLM_TOKENS).spent == 6 * 120
    # The second question says what came of the first.
    told = endpoint.asked[3].prompt.partition("## Dead ends")[2]
    assert "the patch could not be applied" in told
    assert "RATE=9" in told
    assert problems(service) == []


def edits_train(asked: m.Asked) -> m.Behaviour:
    """A model that answers in prose, then with a patch of lines that are not there, then well."""
    source = asked.prompt.partition("## Current source")[2]
    steps = int(re.findall(r"^STEPS = (\d+)$", source, re.MULTILINE)[0])
    if asked.number == 0:
        return m.says("I would try a higher degree.")
    if asked.number == 1:
        old, new = "DEGREE = 99", "DEGREE = 3"
    elif "DEGREE = 1\n" in source:
        old, new = "DEGREE = 1", "DEGREE = 3"
    else:
        old, new = f"STEPS = {steps}", f"STEPS = {3 * steps}"
    diff = f"--- a/train.py\n+++ b/train.py\n@@ -1,1 +1,1 @@\n-{old}\n+{new}\n"
    return m.says(f"The curve bends.\n\n```diff\n{diff}```\nThat should help.")


def test_the_example_where_a_model_edits_the_program_runs_from_end_to_end(
    tmp_path: Path, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = edits_train
    with arl_in(tmp_path) as arl:
        arl.ok("init", "mine", "--example", "edit")
        place = Arl(tmp_path / "mine")
        file = place.place / "study.yaml"
        text = file.read_text().replace("http://localhost:8000/v1", endpoint.url)
        file.write_text(
            text.replace("trials: 12", "trials: 3").replace("parents: islands", "parents: best")
        )
        allowed = {"ARL_ALLOW_UNSANDBOXED_PATCHES": "1"}
        place.ok("plan", "study.yaml", **allowed)
        place.ok("run", "study.yaml", **allowed)
        document = place.show()
        assert document["model_use"]["calls"] == len(endpoint.asked) == 5
        assert document["model_use"]["tokens"] == 5 * 120
        shown = place.ok("show").out
        assert "language model: 5 calls" in shown
        trials = [t for t in document["trials"] if t["kind"] == "search"]
        number = trials[-1]["number"]
        assert "+STEPS = 1800" in place.ok("show", f"last/{number}").out
        place.ok("verify")
    outcomes = {t["outcome"] for t in trials}
    assert "kept" in outcomes
    assert outcomes <= {"kept", "discarded"}, "by how lucky their seeds are"
    assert "points.json" in endpoint.asked[0].prompt
