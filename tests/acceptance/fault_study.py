"""The study that touches everything, and the operator who pauses, extends and enqueues.

Serial and small: two baselines; a grid of five values of `x` of which the first repeats the
baseline (served), one always fails, one's evaluator fails once, one fails once and goes on from
its resume checkpoint; a trial that the operator enqueues; then a replay family and a promotion.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import select

from controller.decisions import profiles, retries
from controller.jobs import Jobs
from controller.spec import study as study_spec
from controller.steps import submit as submit_step
from controller.wiring import Cleaner, Service, _release
from controller.worker import driver
from controller.worker.loop import Callbacks
from ledger import reads, writes
from ledger.records import CommandVerb, Json, Study
from ledger.rows import COMMANDS
from ledger.states import StudyState
from targets.protocol import Target
from tests.acceptance.shell_study import drive, open_service, submit

T = TypeVar("T")
STUDY_ID = "s0123456789"
READ_X = 'IFS= read -r d < "$ARL_PARAMS"; x=${d#*\\"x\\": }; x=${x%%[,\\}]*}; '
NOTE = 'r="${ARL_OUTPUT%/.arl/*}/ran"; [ ! -e "$r" ] || echo "$ARL_ATTEMPT" >> "$r"; '
"""Each program writes down that it was started, beside the ledger's home, where it sees that."""
TRAIN = (
    READ_X
    + NOTE
    + 'echo "training $x"; '
    + 'echo "{\\"step\\": 1, \\"metric\\": \\"loss\\", \\"value\\": $x}" >> "$ARL_REPORTS"; '
    + 'if [ "$x" = 0.3 ]; then exit 3; fi; '
    + 'if [ "$x" = 0.7 ] && [ ! -e "$ARL_INPUTS/resume/step" ]; then '
    + 'mkdir "$ARL_OUTPUT/resume"; echo 1 > "$ARL_OUTPUT/resume/step"; exit 4; fi; '
    + 'mkdir "$ARL_OUTPUT/model"; echo "$x" > "$ARL_OUTPUT/model/x"'
)
EVALUATE = (
    NOTE
    + 'read -r x < "$ARL_INPUTS/artifact/x"; '
    + 'case "$ARL_ATTEMPT" in *.e-search-0) if [ "$x" = 0.5 ]; then exit 5; fi;; esac; '
    + 'echo "{\\"metrics\\": {\\"score\\": $x}}" >&3'
)


def document() -> dict[str, Any]:
    """What of the study file differs from the shell study's."""
    return {
        "name": "everything",
        "program": {"kind": "command", "argv": ["/bin/sh", "-c", TRAIN]},
        "space": {"x": {"type": "float", "low": 0.1, "high": 0.9, "step": 0.2, "default": 0.1}},
        "evaluator": {
            "bundle": "./evaluator",
            "argv": ["/bin/sh", "-c", EVALUATE],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}},
        },
        "proposer": {"name": "grid"},
        "budget": {"trials": 4},
        "retries": {"candidate": 1, "evaluator": 2},
        "noise": {},
        "promotion": {"model": "toy", "profile": "quick", "alpha": 0.4},
    }


def hasten() -> None:
    """Shorten what takes long, and give the study an id that is the same every time."""
    shorten()
    submit_step.secrets = FixedSecrets  # type: ignore[attr-defined]


def shorten() -> None:
    """Shorten the waits, and the gate to the fewest runs that can pass it. For good: call it in
    a process of its own."""
    retries.FIRST_DELAY_S = 0.01  # type: ignore[misc]
    driver.COMMANDS_EVERY_S = 0.05  # type: ignore[misc]
    gate = replace(profiles.QUICK, m=1, k1=1, k2=2, n0=2, n_new=2, n_old=2)
    profiles.PROFILES["quick"] = gate  # type: ignore[index]
    study_spec.BASELINES_NEEDED["quick"] = 2  # type: ignore[index]


class FixedSecrets:
    """Ids that are the same in every run, so that runs can be compared."""

    @staticmethod
    def token_hex(_: int) -> str:
        return STUDY_ID[1:]


class InlineCleaner(Cleaner):
    """Cleans up at once, in the loop's own thread: its fault points come in a fixed order."""

    def release(self, target: Target, handle: str) -> None:
        _release(target, handle)


class InlineJobs(Jobs[T]):
    """Does a job when its result is asked for, for the same reason."""

    def result(self, key: str, job: Callable[[], T]) -> T | None:
        return job()


class Operator:
    """Pauses the study after its third search trial; once nothing runs, adds trials to it and
    resumes. Looks at the ledger first, so that a crash makes it ask nothing twice."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def look(self, finished: int, state: StudyState, live: int) -> bool:
        """Whether something was asked for."""
        if state is StudyState.RUNNING and finished >= 4:
            return self._ask((CommandVerb.PAUSE, {}))
        if state is StudyState.PAUSED and not live:
            return self._ask(
                (CommandVerb.ENQUEUE, {"params": {"x": 0.9}}),
                (CommandVerb.EXTEND, {"trials": {"by": 2}}),
                (CommandVerb.RESUME, {}),
            )
        return False

    def _ask(self, *commands: tuple[CommandVerb, dict[str, Json]]) -> bool:
        with self._service.ledger.read() as session:
            verbs = session.connection.execute(select(COMMANDS.c.verb)).scalars().all()
        if commands[-1][0] in verbs:
            return False
        with self._service.ledger.write() as session:
            for verb, arguments in commands:
                writes.insert_command(session, STUDY_ID, verb, arguments, "operator")
        return True

    def callbacks(self, on_tick: Callable[[driver.StudyDriver], None]) -> Callbacks:
        def tick(which: driver.StudyDriver) -> None:
            view = which.view
            if self.look(view.finish_seq, view.study.state, len(view.live)):
                which._commands_at = 0.0  # read at the very next tick, in every run
            on_tick(which)

        return Callbacks(
            on_recovery=lambda r: (
                self.look(r.trials_done, StudyState(r.state), r.trials_live) and None
            ),
            on_tick=tick,
        )


def settle(
    home: Path, environment: Mapping[str, str], changes: Mapping[str, Any] | None = None
) -> None:
    """Say by which settings (ARL_…) every process of this home runs, and what of the study is
    otherwise than usual; None takes a key away."""
    (home / "environment.json").write_text(json.dumps(dict(environment)), encoding="utf-8")
    (home / "changes.json").write_text(json.dumps(dict(changes or {})), encoding="utf-8")


def settled_document(home: Path) -> dict[str, Any]:
    changes = json.loads((home / "changes.json").read_text(encoding="utf-8"))
    return {k: v for k, v in {**document(), **changes}.items() if v is not None}


def settled_environment(home: Path) -> dict[str, str]:
    written: dict[str, str] = json.loads((home / "environment.json").read_text(encoding="utf-8"))
    return written


def open_settled(home: Path) -> Service:
    return open_service(home, **settled_environment(home))


def live_through(home: Path, base: Path) -> Study:
    """Submit the study unless it was, and drive it to its end. Ends with nothing open."""
    service = open_settled(home)
    service.cleaner = InlineCleaner()
    service.collecting = InlineJobs(lambda: None)
    try:
        with service.ledger.read() as session:
            known = reads.ended_study_ids(session) | {
                s.id for s in reads.workable_studies(session)
            }
        if STUDY_ID not in known:
            where = service.settings.auto_target
            # A sandbox gives no more processor time than was asked for.
            resources = {"cpus": 0.1 if where == "local" else 1}
            submit(
                service,
                base,
                target={"name": where},
                resources=resources,
                **settled_document(home),
            )
        return drive(service, STUDY_ID, Operator(service).callbacks(lambda _: None))
    finally:
        service.close()


def recovery_s(service: Service, started_at: float) -> float | None:
    """From the start of the recovering process to the first thing it recorded after its claim;
    None when nothing was left to do."""
    with service.ledger.read() as session:
        entries = reads.list_entries(session, STUDY_ID, limit=100_000)
    claimed = [e.seq for e in entries if e.kind == "worker_claimed" and e.at >= started_at]
    later = [e.at for e in entries if claimed and e.seq > claimed[0]]
    return later[0] - started_at if later else None


def now() -> float:
    """On the clock that the ledger's entries carry."""
    return time.time()
