"""Whole studies whose proposer is a language model: a scripted server that also misbehaves."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.wiring import Service
from controller.worker.loop import Callbacks, StudyDriver, Worker
from ledger import reads
from ledger.records import BudgetLine, Resource, Trial
from ledger.states import Reason, StudyState, TrialState
from ledger.trial_parts import load_budgets
from ledger.verify import verify_ledger
from tests import model_endpoint as m
from tests.acceptance.shell_study import drive, facts, open_service, submit
from tests.acceptance.test_patched_trials import EVALUATE, RATE, TRAIN
from tests.cli_runs import Arl, arl_in, interrupt

QUICK: dict[str, Any] = {
    "tries": 2,
    "connect_s": 2.0,
    "read_s": 1.0,
    "total_s": 1.5,
    "first_wait_s": 0.01,
    "longest_wait_s": 0.1,
    "first_rest_s": 0.2,
    "longest_rest_s": 0.3,
}
PRICE = {"prompt_usd_per_million": 100.0, "completion_usd_per_million": 1000.0}


def proposer(name: str, url: str, **options: Any) -> dict[str, Any]:
    endpoints = [{"url": url, "model": "scripted", "price": PRICE}]
    return {"name": name, "options": {"endpoints": endpoints, **QUICK, **options}}


@pytest.fixture
def endpoint() -> Iterator[m.ModelEndpoint]:
    with m.model_endpoint(climbs) as opened:
        yield opened


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path, ARL_ALLOW_UNSANDBOXED_PATCHES="1")
    yield opened
    opened.close()


def best_known(prompt: str) -> float:
    """The x of the best trial, read from the prompt like a model would."""
    section = prompt.partition("## Best trials")[2].partition("## ")[0]
    found = re.findall(r'"x": ([0-9.]+)', section)
    return float(found[-1]) if found else 0.1


def climbs(asked: m.Asked) -> m.Behaviour:
    """A model that goes on from the best one."""
    count = int((re.findall(r"Propose (\d+) sets", asked.prompt) or ["1"])[0])
    best = best_known(asked.prompt)
    return m.proposes(*({"x": min(1.0, round(best + 0.15 * n, 4))} for n in range(1, count + 1)))


def changes_rate(asked: m.Asked) -> m.Behaviour:
    """A model that raises the rate it is shown a little."""
    source = asked.prompt.partition("## Current source")[2]
    rate = re.findall(r"^RATE=([0-9.]+)$", source, re.MULTILINE)[0]
    better = min(0.95, round(float(rate) + 0.2, 2))
    return m.says(
        "More rate, more score.\n\nrate.sh\n<<<<<<< SEARCH\n"
        f"RATE={rate}\n=======\nRATE={better}\n>>>>>>> REPLACE\n"
    )


def patched(service: Service, base: Path, proposer: dict[str, Any], **changes: Any) -> str:
    (base / "program").mkdir(exist_ok=True)
    (base / "program" / "rate.sh").write_text(RATE)
    (base / "brief.md").write_text("Raise RATE step by step.\n")
    given: dict[str, Any] = {
        "program": {
            "kind": "command",
            "argv": ["/bin/sh", "-c", TRAIN],
            "source": "./program",
            "mutable": ["rate.sh"],
            "mutable_reason": "rate.sh sets a number",
            "brief": "./brief.md",
        },
        "evaluator": {
            "bundle": "./evaluator",
            "argv": ["/bin/sh", "-c", EVALUATE],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}, "cost": {}},
        },
        "space": {},
        "budget": {"trials": 4},
        "proposer": proposer,
        **changes,
    }
    return submit(service, base, **given)


def search_trials(service: Service, study_id: str) -> list[Trial]:
    with service.ledger.read() as session:
        found = reads.list_trials(session, study_id, limit=200).items
    return [item.trial for item in found if item.trial.kind == "search"]


def calls(service: Service, study_id: str) -> list[dict[str, Any]]:
    return [dict(p) for kind, p in facts(service, study_id) if kind == "model_called"]


def problems(service: Service) -> list[str]:
    return [str(problem) for problem in verify_ledger(service.ledger, service.store)]


def line_of(service: Service, study_id: str, resource: Resource) -> BudgetLine:
    with service.ledger.read() as session:
        return load_budgets(session, study_id)[resource]


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


def test_every_bad_answer_of_the_fault_matrix_is_overcome_and_charged_once(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    bad = [
        m.sends(429),
        m.sends(429, headers={"retry-after": "0"}),
        m.sends(500),
        m.silent(),
        m.cut_off(),
        m.html_page(),
        m.half_json(),
        m.huge(),
        m.drips(),
        m.resets(),
        m.says(None, refusal="I will not", tokens=(100, 20)),
        m.says("", tokens=(100, 20)),
    ]

    def script(asked: m.Asked) -> m.Behaviour:
        turn, is_second = divmod(asked.number, 2)
        if turn < len(bad) and not is_second:
            return bad[turn]
        return m.proposes({"x": (asked.number + 1) / 100})

    endpoint.script = script
    study_id = submit(
        service,
        tmp_path,
        proposer=proposer("llm", endpoint.url),
        budget={"trials": len(bad)},
    )
    study = drive(service, study_id)
    trials = search_trials(service, study_id)
    made = calls(service, study_id)
    assert (study.state, len(trials)) == (StudyState.COMPLETED, len(bad))
    assert all(t.state is TrialState.COMPLETE for t in trials)
    assert [call["outcome"] for call in made[::2]] == [
        *("rate_limited", "rate_limited", "server_error", "timed_out", "cut_off", "wrong_type"),
        *("not_json", "too_large", "timed_out", "unreachable", "refused", "empty"),
    ]
    assert {call["outcome"] for call in made[1::2]} == {"answered"}
    # Twelve answers, and the two that the model itself wasted.
    assert line_of(service, study_id, Resource.LLM_TOKENS).spent == 14 * 120
    assert line_of(service, study_id, Resource.LLM_COST_USD).spent == pytest.approx(14 * 0.03)
    assert problems(service) == []


@pytest.mark.parametrize(
    ("away", "said"),
    [(m.sends(503), "server_error, status 503"), (m.silent(), r"timed_out, [\w. ]+")],
)
def test_a_study_waits_for_its_endpoint_without_a_trial_while_another_one_finishes(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint, away: m.Behaviour, said: str
) -> None:
    gone = m.in_turn(away)
    endpoint.script = gone
    waiting = submit(
        service,
        tmp_path / "a",
        name="waiting",
        proposer=proposer("llm", endpoint.url),
        budget={"trials": 2},
    )
    other = submit(service, tmp_path / "b", name="other", budget={"trials": 3})
    seen: list[str] = []

    def watch(driver: StudyDriver) -> None:
        with service.ledger.read() as session:
            studies = {i: reads.get_study(session, i) for i in (waiting, other)}
        detail = studies[waiting].detail
        if detail and detail not in seen:
            seen.append(detail)
        ready = studies[other].state is StudyState.COMPLETED and len(endpoint.asked) > 3
        if ready and endpoint.script is gone:
            assert search_trials(service, waiting) == []
            endpoint.script = climbs

    Worker(service, Callbacks(on_tick=watch)).run(only=[waiting, other])
    assert re.fullmatch(
        rf"no endpoint of proposer\.options\.endpoints answers: {re.escape(endpoint.url)}: "
        rf"{said}; next try in \d+ s",
        seen[0],
    )
    trials = search_trials(service, waiting)
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 2
    with service.ledger.read() as session:
        assert reads.get_study(session, waiting).detail == ""
    spent = line_of(service, waiting, Resource.LLM_TOKENS).spent
    assert spent == sum(120 for c in calls(service, waiting) if c["outcome"] == "answered")
    assert problems(service) == []


def test_a_declared_fallback_steps_in_for_an_endpoint_that_is_away_and_says_so(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = m.in_turn(m.sends(503))
    study_id = submit(
        service,
        tmp_path,
        proposer=proposer("llm", endpoint.url, when_unreachable="fallback"),
        budget={"trials": 3},
    )
    drive(service, study_id)
    trials = search_trials(service, study_id)
    with service.ledger.read() as session:
        found = [reads.get_candidate(session, t.candidate_id) for t in trials]
    assert [c.proposer for c in found] == ["llm/fallback"] * 3
    assert all("random search, because no endpoint" in c.rationale for c in found)
    assert line_of(service, study_id, Resource.LLM_TOKENS).spent == 0


def test_a_call_lost_with_its_controller_is_charged_at_its_worst_and_the_study_goes_on(
    tmp_path: Path, endpoint: m.ModelEndpoint
) -> None:
    service = open_service(tmp_path)
    study_id = submit(
        service, tmp_path, proposer=proposer("llm", endpoint.url), budget={"trials": 2}
    )
    service.close()
    killed = threading.Event()
    arl = Arl(tmp_path)
    process = arl.start("resume", study_id)
    first = m.slowly(30, m.proposes({"x": 0.9}))

    def script(asked: m.Asked) -> m.Behaviour:
        if asked.number == 0:
            process.kill()
            killed.set()
            return first
        return m.proposes({"x": asked.number / 10})

    endpoint.script = script
    assert killed.wait(60)
    process.communicate()
    service = open_service(tmp_path)
    reserved = line_of(service, study_id, Resource.LLM_TOKENS).reserved
    assert reserved > 10_000
    study = drive(service, study_id)
    made = calls(service, study_id)
    assert study.state is StudyState.COMPLETED
    assert [call["outcome"] for call in made] == ["lost", "answered", "answered"]
    assert line_of(service, study_id, Resource.LLM_TOKENS).spent == reserved + 2 * 120
    assert len(search_trials(service, study_id)) == 2
    assert problems(service) == []
    service.close()


def test_no_secret_reaches_a_row_a_log_or_a_prompt(
    tmp_path: Path, endpoint: m.ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "sk-canary-0f3a9b"
    monkeypatch.setenv("ARL_SECRET_CANARY", canary)

    def script(asked: m.Asked) -> m.Behaviour:
        said = asked.headers["authorization"]
        if asked.number == 0:
            return m.sends(500, f'{{"error": "bad key {said}"}}')
        rate = f"RATE=0.{asked.number + 3} # {said}"
        return m.says(
            f"I was told {said}\n\nrate.sh\n<<<<<<< SEARCH\nRATE=0.3\n=======\n{rate}\n"
            ">>>>>>> REPLACE\n"
        )

    endpoint.script = script
    service = open_service(tmp_path, ARL_ALLOW_UNSANDBOXED_PATCHES="1")
    chosen = proposer("llm_diff", endpoint.url)
    chosen["options"]["endpoints"][0]["secret"] = "ARL_SECRET_CANARY"
    study_id = patched(service, tmp_path, chosen, budget={"trials": 2})
    drive(service, study_id)
    trials = search_trials(service, study_id)
    service.close()
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 2
    assert all(a.headers["authorization"] == f"Bearer {canary}" for a in endpoint.asked)
    assert all(canary not in str(a.body) for a in endpoint.asked)
    for path in (tmp_path / ".arl").rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path


def test_a_study_whose_secret_is_not_set_waits_and_names_it(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    chosen = proposer("llm", endpoint.url)
    chosen["options"]["endpoints"][0]["secret"] = "ARL_SECRET_NOBODY_SET"
    study_id = submit(service, tmp_path, proposer=chosen)
    found: list[str] = []

    def watch(driver: StudyDriver) -> None:
        with service.ledger.read() as session:
            detail = reads.get_study(session, study_id).detail
        if detail:
            found.append(detail)
            worker.stop()

    worker = Worker(service, Callbacks(on_tick=watch))
    worker.run(only=[study_id])
    assert "secret 'ARL_SECRET_NOBODY_SET': ARL's environment has no such variable" in found[0]
    assert endpoint.asked == []


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
    assert [t["outcome"] for t in trials] == ["kept", "kept", "kept"]
    assert "points.json" in endpoint.asked[0].prompt


def test_an_interrupted_run_ends_at_once_while_a_model_thinks(
    tmp_path: Path, endpoint: m.ModelEndpoint
) -> None:
    asked = threading.Event()

    def script(_: m.Asked) -> m.Behaviour:
        asked.set()
        return m.silent()

    endpoint.script = script
    with arl_in(tmp_path) as arl:
        chosen = proposer("llm", endpoint.url, read_s=100.0, total_s=100.0)
        process = arl.start("run", arl.study(proposer=chosen))
        assert asked.wait(60)
        started = time.monotonic()
        done = interrupt(process)
        assert time.monotonic() - started < 10
        assert "arl resume" in done.out + done.err
