"""Whatever happens in whatever order, after every step the promises hold.

The real steps, decisions and ledger, driven by hypothesis: attempts end, fail and are lost,
operators ask for things, controllers die in the middle of a tick, sleepers wake up. Only the
target is scripted; judged by the judges of every other fault.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from controller.decisions import retries
from controller.decisions.slots import ResourcePool
from controller.steps.capacity import Capacity
from controller.worker import driver as driving
from controller.worker.driver import StudyDriver
from controller.worker.recovery import reap_ended, recover
from ledger import writes
from ledger.database import WriteSession
from ledger.errors import StaleFence
from ledger.records import CommandVerb, Json
from ledger.states import StudyState
from targets.protocol import ExitCause
from tests.acceptance import figures, promises
from tests.acceptance.fault_study import InlineCleaner, InlineJobs
from tests.acceptance.scripted_target import Killed, ScriptedTarget, World
from tests.acceptance.shell_study import document, open_service, own_findings, submit, witness

STUDY: dict[str, Any] = {
    "space": {"x": {"type": "float", "low": 0.0, "high": 1.0, "step": 0.1, "default": 0.1}},
    "proposer": {"name": "random"},
    "noise": {"baseline_trials": 2},
    "parallel": 3,
    "resources": {"cpus": 1, "gpus": 1, "wall_time": 12},
    "budget": {"trials": 5, "gpu_hours": 0.03},
    "evaluator": {**document()["evaluator"], "wall_time": 12},
    "retries": {"infrastructure": 3, "candidate": 1, "evaluator": 1},
    "stop": {"consecutive_failures": 6},
}
ASKED: dict[CommandVerb, dict[str, Json]] = {
    CommandVerb.PAUSE: {},
    CommandVerb.RESUME: {},
    CommandVerb.EXTEND: {"trials": {"by": 1}},
    CommandVerb.ENQUEUE: {"params": {"x": 0.7}},
    CommandVerb.STOP: {},
    CommandVerb.CANCEL: {},
}
VERBS = [*(verb for verb in ASKED for _ in range(3)), CommandVerb.RESUME]
VERBS.remove(CommandVerb.CANCEL)
VERBS.remove(CommandVerb.CANCEL)
FAILURES = {
    "exit": (ExitCause.EXITED, 3),
    "signal": (ExitCause.EXITED, -9),
    "deadline": (ExitCause.DEADLINE, -9),
    "memory": (ExitCause.OUT_OF_MEMORY, -9),
    "killed": (ExitCause.KILLED, -9),
    "lost": (ExitCause.LOST, None),
}
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
SCHEDULES = 80
WALL = st.sampled_from((0.0, 3.0, 11.5, 40.0))
"""Of an attempt that may take 12 s: the last one overran its limit."""
AGAIN = st.sampled_from((0, 1, 2, 4))
"""Moments of a recovery before it is killed, too. Few recoveries have more than three."""
SEEN: Counter[str] = Counter()


class AnySchedule(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="arl-any-", dir=MEMORY)
        base = Path(self._directory.name)
        self.world = World(base)
        self.service = open_service(base, ARL_GPUS="0,1", ARL_CPUS="8")
        self.service.cleaner = InlineCleaner()
        self.service.collecting = InlineJobs(lambda: None)
        self.target = self._connect()
        self.base = base
        self.claims = 0
        self.sleeper: tuple[StudyDriver, ScriptedTarget] | None = None
        self._countdown = -1
        self.world.moment = self._moment

    def _connect(self) -> ScriptedTarget:
        """A new controller's target, in the place of the local one."""
        target = ScriptedTarget(self.world)
        self.service._targets = {self.service.settings.home / "local": target}
        return target

    # --- the controller ------------------------------------------------------------------------

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.study_id = submit(self.service, self.base, seed=seed, **STUDY)
        self.claim()
        self.turn(3)

    def claim(self) -> None:
        """What a worker does first, by a new worker."""
        self.claims += 1
        self.target = self._connect()
        self.service.dismiss_proposer(self.study_id)
        pool = ResourcePool(cpus=8.0, memory_bytes=2**40, gpu_ids=("0", "1"))
        owner = f"w{self.claims}"
        while True:
            try:
                reap_ended(self.service)
                with self.service.ledger.write() as session:
                    fence = writes.claim_study(session, self.study_id, owner, 1e6, dead=True)
                assert fence is not None
                capacity = Capacity(
                    pool, self.service.clock, host=self.service.settings.host, owner=owner
                )
                self.driver = StudyDriver(self.service, self.study_id, fence, capacity)
                recover(self.driver, self.service, was_held="somebody")
                return
            except Killed:
                SEEN["killed during a recovery"] += 1

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            news = {a.handle for a in self.driver.view.attempts() if a.handle is not None}
            self.driver.tick(news)

    @rule(times=st.integers(1, 6))
    def tick(self, times: int) -> None:
        self.turn(times)

    @rule()
    def kill(self) -> None:
        SEEN["killed between two ticks"] += 1
        self.claim()
        self.turn()

    @rule(after=st.integers(0, 8), again=AGAIN)
    def kill_in_a_tick(self, after: int, again: int) -> None:
        """Dies at one of the next moments; the one that follows may die in its recovery."""
        self._countdown = after
        try:
            with self._dying_commits():
                self.turn(3)
        except Killed:
            SEEN["killed in a tick"] += 1
            self._countdown = again
            with self._dying_commits():
                self.claim()
        self._countdown = -1

    @rule()
    def take_over(self) -> None:
        """The worker sleeps past its lease; it may wake up later."""
        self.sleeper = (self.driver, self.target)
        SEEN["taken over"] += 1
        self.claim()
        self.turn(2)

    @precondition(lambda self: self.sleeper is not None)
    @rule()
    def wake_the_sleeper(self) -> None:
        assert self.sleeper is not None
        driver, target = self.sleeper
        self.sleeper = None
        before, head = list(self.world.started), self._head()
        driver.lease_until = 0.0
        target.lease_is_over = True
        try:
            for _ in range(3):
                driver.tick(set(self.world.runs))
        except StaleFence:
            SEEN["a sleeper found out"] += 1
        assert self.world.started == before
        assert self._head() == head

    def _head(self) -> Any:
        return witness(self.service).rows("SELECT head_seq, head_digest FROM studies")

    def _moment(self) -> None:
        if self._countdown == 0:
            self._countdown = -1
            raise Killed
        self._countdown -= self._countdown > 0

    @contextmanager
    def _dying_commits(self) -> Iterator[None]:
        """Every commit is two moments, too: before it, when all is rolled back, and after."""
        ledger = self.service.ledger
        write = ledger.write

        @contextmanager
        def dying() -> Iterator[WriteSession]:
            with write() as session:
                yield session
                self._moment()
            self._moment()

        ledger.write = dying  # type: ignore[method-assign]
        try:
            yield
        finally:
            del ledger.write  # type: ignore[method-assign]

    # --- the world -----------------------------------------------------------------------------

    @precondition(lambda self: self.world.running())
    @rule(data=st.data(), value=st.sampled_from((0.1, 0.5, 0.9)), wall_s=WALL)
    def finish(self, data: st.DataObject, value: float, wall_s: float) -> None:
        self.world.finish(data.draw(st.sampled_from(self.world.running())), value, wall_s)

    @rule(rounds=st.integers(1, 4))
    def go_on(self, rounds: int) -> None:
        """Everything goes well for a while."""
        for value in range(rounds):
            for name in self.world.running():
                self.world.finish(name, value / 10, 2.0)
            self.turn(3)

    @precondition(lambda self: self.world.running())
    @rule(data=st.data(), how=st.sampled_from(sorted(FAILURES)), wall_s=WALL)
    def fail(self, data: st.DataObject, how: str, wall_s: float) -> None:
        SEEN[f"an attempt fails: {how}"] += 1
        self.world.fail(data.draw(st.sampled_from(self.world.running())), *FAILURES[how], wall_s)

    @precondition(lambda self: self.world.running())
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        SEEN["an attempt is lost"] += 1
        name = data.draw(st.sampled_from(self.world.running()))
        self.world.forget(name)
        intent = "SELECT id FROM attempts WHERE state = 'launching'"
        if (name.removeprefix("arl-"),) in witness(self.service).rows(intent):
            # Nobody knows of it any more, nor ever did: it is started as if for the first time.
            self.world.started.remove(name)

    @rule(verb=st.sampled_from(VERBS))
    def ask(self, verb: CommandVerb) -> None:
        SEEN[f"asked to {verb}"] += 1
        with self.service.ledger.write() as session:
            writes.insert_command(session, self.study_id, verb, ASKED[verb], "operator")

    # --- what holds ----------------------------------------------------------------------------

    @invariant()
    def nothing_is_broken(self) -> None:
        SEEN["steps"] += 1
        judge = witness(self.service)
        assert [
            *promises.budgets_exceeded(judge),
            *promises.accepted_twice(judge, self.world.started),
            *promises.chain_broken(judge, artifacts=False),
        ] == []
        trials = Counter(name.partition(".")[0] for name in self.world.running())
        assert max(trials.values(), default=0) <= 1, "two attempts of one trial run"

    def teardown(self) -> None:
        try:
            if hasattr(self, "study_id"):
                self._end()
        finally:
            self.service.close()
            self._directory.cleanup()

    def _end(self) -> None:
        """Let everything come to its end, and judge all of it."""
        self._countdown = -1
        for _ in range(200):
            self.turn()
            study = self.driver.view.study
            if study.state is StudyState.PAUSED and not self._unanswered():
                self.ask(CommandVerb.RESUME)
            for name in self.world.running():
                self.world.finish(name, 0.3, 1.0)
            if self.driver.is_settled and not self._unanswered():
                break
        self.claim()  # whoever claims reaps what was left
        SEEN[f"ended {self.driver.view.study.state}"] += 1
        judge = witness(self.service)
        assert promises.broken(judge, self.world.started) == []
        assert own_findings(self.service) == []
        assert self.world.runs == {}, "nothing is left in the world"

    def _unanswered(self) -> list[Any]:
        return witness(self.service).rows("SELECT id FROM commands WHERE state = 'pending'")


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_DELAY_S", 0.0)
    monkeypatch.setattr(driving, "COMMANDS_EVERY_S", 0.0)
    monkeypatch.setattr(driving, "NOTES_WAIT_S", 0.0)


def run(examples: int, steps: int) -> None:
    SEEN.clear()
    run_state_machine_as_test(
        AnySchedule,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.usefixtures("hurry")
def test_any_schedule_keeps_every_promise_at_every_step() -> None:
    run(6, 18)
    assert SEEN["steps"] > 80


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("hurry")
def test_scores_of_schedules_keep_every_promise_at_every_step() -> None:
    run(SCHEDULES, 25)
    steps = SEEN.pop("steps")
    figures.publish("schedules of the core", schedules=SCHEDULES, judged=steps, seen=dict(SEEN))
    assert SEEN["killed during a recovery"] > 0
    assert SEEN["a sleeper found out"] > 0
