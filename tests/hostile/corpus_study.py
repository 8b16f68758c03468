"""Puts attacks through a real study on one target, with honest neighbours, and keeps what the
ledger says of it."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import select

from controller.decisions import retries
from controller.documents.log_text import CHUNK, handle_of
from controller.steps import attempt_specs
from controller.wiring import Service
from controller.worker import driver
from ledger import reads
from ledger.records import Attempt, AttemptKind, Study, Trial
from ledger.rows import ATTEMPTS, TRIALS, attempt_from, trial_from
from ledger.verify import verify_ledger
from targets.protocol import Limits
from tests.acceptance import promises, shell_study
from tests.acceptance.witness import attempt_processes
from tests.hostile.corpus.entry import Attack, Shape
from tests.hostile.corpus_programs import write_study
from tests.hostile.corpus_world import SECRET, World, delete_base, new_base
from tests.target_runs import end_supervisor

SANDBOXES: Final = frozenset({"bubblewrap", "docker"})
NEIGHBOURS: Final = ("honest", "honest+2")
GRACE_S: Final = 0.3
LOG_BYTES: Final = 4 << 20
"""Of a log that is searched for what got through: attacks print it early or late, never amid."""
MIB: Final = "MiB"

SECTIONS: Final[Mapping[Shape, Mapping[str, Any]]] = {
    Shape.WEIGHTS: {"resources": {"cpus": 1, "wall_time": "60s", "logs": f"2{MIB}"}},
    Shape.REPLAY: {"resources": {"cpus": 1, "wall_time": "6s"}},
    Shape.DOCUMENTS: {"resources": {"cpus": 1, "wall_time": "60s"}},
    Shape.ANSWERS: {
        "resources": {
            "cpus": 1,
            "wall_time": "30s",
            "memory": f"192{MIB}",
            "logs": f"1{MIB}",
            "scratch": f"64{MIB}",
        }
    },
    Shape.LIMITS: {
        "resources": {
            "cpus": 1,
            "wall_time": "8s",
            "memory": f"192{MIB}",
            "logs": f"1{MIB}",
            "output": f"64{MIB}",
            "scratch": f"64{MIB}",
        }
    },
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of one hostile study."""

    study: Study
    trials: Mapping[str, Sequence[Trial]]
    """Search trials by the value of `attack`, repetitions together."""
    logs: Mapping[str, str]
    """Of each of those, all its attempts' logs in one."""
    family: frozenset[str]
    """Those that were replayed."""
    incumbent: str | None
    """The one that was promoted last; None: none ever was."""
    baseline: tuple[float, ...]
    trouble: tuple[str, ...]
    """What holds for no single attack: harm to the host, what still runs, a broken ledger."""
    replays: tuple[Trial, ...]
    said: Mapping[str, str]
    """The log of each trial's training, by the trial's id."""


@contextmanager
def in_a_hurry() -> Iterator[None]:
    """Short graces and retries: the corpus ends many programs by force."""

    def limits(**given: Any) -> Limits:
        return Limits(**{**given, "grace_s": GRACE_S})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempt_specs, "Limits", limits)
        patch.setattr(retries, "FIRST_DELAY_S", 0.02)
        patch.setattr(driver, "CONDITION_EVERY_S", 0.1)
        patch.setenv("ARL_CORPUS_SECRET", SECRET)
        yield


class Complaints(logging.Handler):
    """Everything that the controller logs as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage()[:300])


def run_study(
    attacks: Collection[Attack],
    shape: Shape,
    target: str,
    *,
    environment: Mapping[str, str] | None = None,
    parallel: int | None = None,
    promote: bool | None = None,
    neighbours: Sequence[str] | None = None,
    baseline: str | None = None,
    **changes: Any,
) -> Seen:
    """Submit a study whose candidates are the attacks and the honest neighbours, drive it to its
    end in this process, and look at everything it left. `baseline` is another honest program."""
    base = new_base()
    world = World(base)
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    try:
        write_study(base, world, attacks, shape, sandboxed=target in SANDBOXES, baseline=baseline)
        world.remember()
        if neighbours is None:
            neighbours = NEIGHBOURS[: 1 if shape is Shape.MODEL else 2]
        chosen = [*names_of(attacks), *neighbours]
        if parallel is None:
            parallel = 5 if shape in (Shape.LIMITS, Shape.ANSWERS) else 3  # those mostly wait
        if promote is None:
            promote = shape in (Shape.WEIGHTS, Shape.REPLAY)
        document = _document(shape, target, chosen, parallel=parallel, promote=promote)
        with in_a_hurry(), _service(base, {"ARL_CPUS": "16", **(environment or {})}) as service:
            study_id = _submit(service, base, {**document, **changes})
            study = shell_study.drive(service, study_id)
            return _look(service, study, world, complaints)
    finally:
        logging.getLogger().removeHandler(complaints)
        for place in (base / ".arl").glob("*/supervisor.sock"):
            end_supervisor(place.parent)
        world.close()
        delete_base(base)


def names_of(attacks: Collection[Attack]) -> list[str]:
    """The values of `attack`: every one once, then the repetitions."""
    names = [attack.name for attack in attacks]
    for turn in range(2, 1 + max((attack.times for attack in attacks), default=1)):
        names += [f"{attack.name}+{turn}" for attack in attacks if attack.times >= turn]
    return names


@contextmanager
def _service(base: Path, environment: Mapping[str, str]) -> Iterator[Service]:
    service = shell_study.open_service(base, **environment)
    try:
        yield service
    finally:
        service.close()


def _document(
    shape: Shape, target: str, choices: list[str], *, parallel: int, promote: bool
) -> dict[str, Any]:
    evaluator: dict[str, Any] = {
        "bundle": "./evaluator",
        "argv": ["{python}", "-I", "-S", "{bundle}/score.py"],
        "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
        "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}},
        "wall_time": "60s",
    }
    if shape is Shape.ANSWERS:
        answering = ["{python}", "-I", "-S", "answer.py"]
        evaluator |= {"mode": "answers", "answer_argv": answering, "wall_time": "30s"}
    if shape is Shape.DOCUMENTS:
        evaluator["wall_time"] = "6s"
    gate = {"promotion": {"model": "toy", "profile": "quick"}, "noise": {}}
    return {
        "name": f"hostile-{shape}",
        "objective": {"metric": "score", "direction": "maximize"},
        "target": {"name": target},
        "program": {
            "kind": "command",
            "argv": ["/bin/sh", "run.sh", "{python}"],
            "source": "./source",
            "data": {
                "start": "./start",
                **({"better": "./better"} if shape is Shape.MODEL else {}),
            },
        },
        "space": {
            "attack": {
                "type": "categorical",
                "choices": [*choices, "baseline"],
                "default": "baseline",
            }
        },
        "proposer": {"name": "grid"},
        "evaluator": evaluator,
        "budget": {"trials": len(choices)},
        "parallel": parallel,
        "retries": {"candidate": 0, "infrastructure": 0, "evaluator": 0},
        "stop": {"consecutive_failures": 10_000, "failure_rate": 1.0, "failure_window": 10_000},
        **_sections(shape),
        **(gate if promote else {"noise": {"baseline_trials": 2}}),
    }


def _sections(shape: Shape) -> Mapping[str, Any]:
    if shape is not Shape.MODEL:
        return SECTIONS[shape]
    from tests.hostile.corpus_models import model_sections  # needs training libraries

    return model_sections()


def _submit(service: Service, base: Path, document: Mapping[str, Any]) -> str:
    from controller.spec.loading import parse_study
    from controller.steps.submit import submit_study

    spec = parse_study(dict(document), base)
    return submit_study(service, spec, base, actor="test", secret=shell_study.SECRET).study_id


# --- looking ---------------------------------------------------------------------------------


def _look(service: Service, study: Study, world: World, complaints: Complaints) -> Seen:
    with service.ledger.read() as session:
        run = session.connection.execute
        rows = run(select(TRIALS).where(TRIALS.c.study_id == study.id).order_by(TRIALS.c.number))
        trials = [trial_from(row) for row in rows]
        found = run(select(ATTEMPTS).where(ATTEMPTS.c.study_id == study.id)).all()
        attempts = [attempt_from(row) for row in found]
        names = {
            t.candidate_id: str(reads.get_candidate(session, t.candidate_id).params["attack"])
            for t in trials
        }
        families = reads.list_families(session, study.id)
        incumbent = reads.latest_incumbent(session, "toy")
    witness = shell_study.witness(service)
    trouble = [*promises.lost(witness), *promises.budgets_exceeded(witness)]
    by_name: dict[str, list[Trial]] = {}
    logs: dict[str, str] = {}
    said: dict[str, str] = {}
    for trial in trials:
        name = names[trial.candidate_id].partition("+")[0]
        if trial.kind == "search":
            by_name.setdefault(name, []).append(trial)
        if trial.kind != "baseline":
            own = [(a, _log(service, a)) for a in attempts if a.trial_id == trial.id]
            logs[name] = logs.get(name, "") + "".join(text for _, text in own)
            said[trial.id] = "".join(text for a, text in own if a.kind is AttemptKind.TRAIN)
    trouble += [f"ledger: {finding}" for finding in verify_ledger(service.ledger, service.store)]
    trouble += [f"unprintable detail of {t.id}" for t in trials if not _is_printable(t.detail)]
    trouble += [f"process {pid} still runs" for pid in world.leftovers()]
    trouble += [f"attempt {n} still runs" for _, n in attempt_processes(world.base)]
    trouble += world.harm()
    trouble += [f"the controller said: {line}" for line in complaints.said]
    return Seen(
        study=study,
        trials=by_name,
        logs=logs,
        family=frozenset(names[c] for family in families for c in family.candidates),
        incumbent=None if incumbent is None else names.get(incumbent.candidate_id),
        baseline=tuple(t.value for t in trials if t.kind == "baseline" and t.value is not None),
        trouble=tuple(trouble),
        replays=tuple(t for t in trials if t.kind == "replay"),
        said=said,
    )


def _log(service: Service, attempt: Attempt) -> str:
    targets = [t for t in service.used_targets() if t.name == attempt.target]
    data, offset = b"", 0
    while targets and len(data) < LOG_BYTES:
        chunk = targets[0].read_log(handle_of(attempt), offset=offset, limit=CHUNK)
        if not chunk.data:
            break
        data += chunk.data
        offset = chunk.offset + len(chunk.data)
    return data.decode("utf-8", "replace")


def _is_printable(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)
