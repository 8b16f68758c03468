"""Whole studies whose language model is away, lies, hangs or is lost with the controller."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.steps import commands
from controller.wiring import Service
from controller.worker.driver import StudyDriver
from controller.worker.loop import Callbacks, Worker
from ledger import reads
from ledger.records import CommandVerb, Resource
from ledger.states import StudyState, TrialState
from tests import model_endpoint as m
from tests.acceptance.llm_study import (
    calls,
    climbs,
    line_of,
    patched,
    problems,
    proposer,
    search_trials,
)
from tests.acceptance.shell_study import drive, facts, open_service, submit
from tests.cli_runs import Arl, arl_in, interrupt


@pytest.fixture
def endpoint() -> Iterator[m.ModelEndpoint]:
    with m.model_endpoint(climbs) as opened:
        yield opened


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path, ARL_ALLOW_UNSANDBOXED_PATCHES="1")
    yield opened
    opened.close()


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


def test_a_study_that_was_left_while_it_waited_goes_on_once_its_endpoint_answers(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint
) -> None:
    endpoint.script = m.in_turn(m.sends(401))
    chosen = proposer("llm", endpoint.url)
    study_id = submit(service, tmp_path, proposer=chosen, budget={"trials": 2})

    def leave(driver: StudyDriver) -> None:
        with service.ledger.read() as session:
            if reads.get_study(session, study_id).detail:
                worker.stop()

    worker = Worker(service, Callbacks(on_tick=leave))
    worker.run(only=[study_id])
    endpoint.script = climbs
    study = drive(service, study_id)
    assert study.state is StudyState.COMPLETED
    waits = [p["detail"] for kind, p in facts(service, study_id) if kind == "proposer_waits"]
    assert waits[-1] == ""
    made = [call["outcome"] for call in calls(service, study_id)]
    assert made[0] == "unauthorized"
    assert made[-1] == "answered"
    assert problems(service) == []


@pytest.mark.parametrize("is_left", [False, True], ids=["driven", "left"])
def test_a_study_that_was_stopped_waits_for_no_endpoint_any_longer(
    tmp_path: Path, service: Service, endpoint: m.ModelEndpoint, is_left: bool
) -> None:
    endpoint.script = m.in_turn(m.sends(401))
    chosen = proposer("llm", endpoint.url)
    study_id = submit(service, tmp_path, proposer=chosen, budget={"trials": 2})
    waited: list[bool] = []

    def stop(driver: StudyDriver) -> None:
        view = driver.snapshot().view
        if view.study.state is StudyState.RUNNING and view.proposer_waits and not waited:
            waited.append(True)
            commands.ask(service, study_id, CommandVerb.STOP, {}, "test")
        elif view.study.state is not StudyState.RUNNING and waited:
            waited.append(view.proposer_waits)
            if is_left and len(waited) == 2:
                worker.stop()

    worker = Worker(service, Callbacks(on_tick=stop))
    worker.run(only=[study_id])
    if is_left:
        drive(service, study_id, Callbacks(on_tick=stop))
    assert len(waited) > 1
    assert not any(waited[1:])


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


@pytest.mark.parametrize(
    ("verb", "state"),
    [(CommandVerb.STOP, StudyState.COMPLETED), (CommandVerb.CANCEL, StudyState.CANCELLED)],
)
def test_a_call_under_way_when_the_search_ends_holds_nothing_up_and_nothing_back(
    tmp_path: Path,
    service: Service,
    endpoint: m.ModelEndpoint,
    verb: CommandVerb,
    state: StudyState,
) -> None:
    endpoint.script = m.in_turn(m.slowly(20.0, m.proposes({"x": 0.5})))
    study_id = submit(
        service, tmp_path, proposer=proposer("llm", endpoint.url, read_s=30.0, total_s=40.0)
    )

    def end_it(driver: StudyDriver) -> None:
        if endpoint.asked and not ended:
            ended.append(time.monotonic())
            commands.ask(service, study_id, verb, {}, "test")

    ended: list[float] = []
    study = drive(service, study_id, Callbacks(on_tick=end_it))
    assert time.monotonic() - ended[0] < 10
    assert study.state is state
    line = line_of(service, study_id, Resource.LLM_TOKENS)
    assert (line.reserved, [c["outcome"] for c in calls(service, study_id)]) == (0.0, ["lost"])
    assert line.spent > 0
    assert search_trials(service, study_id) == []
    assert problems(service) == []
