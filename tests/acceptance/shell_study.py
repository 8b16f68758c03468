"""A study whose programs are shell one-liners: whole lives of studies in a second or two."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.settings import Settings, read_settings
from controller.spec.loading import parse_study
from controller.spec.study import StudySpec
from controller.steps.submit import submit_study
from controller.wiring import Service, build_service
from controller.worker.driver import StudyDriver
from controller.worker.loop import Callbacks, Worker
from ledger import reads
from ledger.records import Study
from ledger.states import FamilyState, Reason, StudyState
from ledger.verify import verify_ledger
from targets.protocol import Target
from tests.acceptance.witness import Witness
from tests.target_runs import wait_until

SECRET = "5e" * 32
TRAIN = 'mkdir "$ARL_OUTPUT/model" && cp "$ARL_PARAMS" "$ARL_OUTPUT/model/params.json"'
# The score is the parameter x; the evaluator sees nothing but the stored artifact.
EVALUATE = (
    'x=$(sed -n \'s/.*"x": *\\([0-9.e-]*\\).*/\\1/p\' "$ARL_INPUTS/artifact/params.json"); '
    'echo "{\\"metrics\\": {\\"score\\": $x}}" >&3'
)


def write_evaluator(base: Path, *, items: int = 8) -> None:
    """An evaluator directory with two disjoint splits, which the one-liner does not read."""
    directory = base / "evaluator"
    directory.mkdir(parents=True, exist_ok=True)
    for split in ("search", "holdout"):
        lines = "".join(f'{{"item": "{split}-{i}"}}\n' for i in range(items))
        path = directory / f"{split}.jsonl"
        # Others may be reading one that is there already.
        if not path.exists() or path.read_text(encoding="utf-8") != lines:
            path.write_text(lines, encoding="utf-8")


def document(**changes: Any) -> dict[str, Any]:
    """A study file as a mapping; `changes` replace whole top-level keys."""
    return {
        "name": "shell",
        "objective": {"metric": "score", "direction": "maximize"},
        "program": {"kind": "command", "argv": ["/bin/sh", "-c", TRAIN]},
        "space": {"x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.1}},
        "evaluator": {
            "bundle": "./evaluator",
            "argv": ["/bin/sh", "-c", EVALUATE],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}},
        },
        "resources": {"cpus": 0.1},
        "noise": {"baseline_trials": 2},
        "budget": {"trials": 4},
        **changes,
    }


def settings(home: Path, **environment: str) -> Settings:
    return read_settings({"ARL_HOME": str(home / ".arl"), "ARL_TARGET": "local", **environment})


def open_service(home: Path, **environment: str) -> Service:
    return build_service(settings(home, **environment), create=True)


def submit(service: Service, base: Path, **changes: Any) -> str:
    """Submit the shell study and return its id; replay seeds are the same every time."""
    write_evaluator(base)
    spec: StudySpec = parse_study(document(**changes), base)
    return submit_study(service, spec, base, actor="test", secret=SECRET).study_id


def target_named(service: Service, name: str) -> Target:
    """One that a study has used."""
    return next(target for target in service.used_targets() if target.name == name)


def witness(service: Service) -> Witness:
    """Who judges what the service did: it is told where the ledger and its home are."""
    return Witness(service.ledger.address, service.settings.home)


def own_findings(service: Service, *, ended: bool = True) -> list[str]:
    """What ARL itself finds wrong (`arl verify`), and attempts that its targets still list."""
    found = [f"verify: {finding}" for finding in verify_ledger(service.ledger, service.store)]
    if ended:
        found += [
            f"O: attempt {one.name} is still there (running: {one.running})"
            for target in service.used_targets()
            for one in target.list_owned(service.ledger.id)
        ]
    return found


def drive(service: Service, study_id: str, callbacks: Callbacks | None = None) -> Study:
    """Run a worker in this process until the study is settled."""
    Worker(service, callbacks).run(only=[study_id])
    with service.ledger.read() as session:
        return reads.get_study(session, study_id)


def drive_until_held(service: Service, study_id: str) -> Study:
    """The same until a condition holds the study."""

    def stop_when_held(driver: StudyDriver) -> None:
        if driver.condition is not None:
            worker.stop()

    worker = Worker(service, Callbacks(on_tick=stop_when_held))
    worker.run(only=[study_id])
    with service.ledger.read() as session:
        return reads.get_study(session, study_id)


def check_promoted_on(name: str, service: Service, base: Path) -> None:
    """A study runs on the target from submitted to promoted, and leaves nothing there."""
    study_id = submit(
        service,
        base,
        parallel=2,
        target={"name": name},
        promotion={"model": "toy", "profile": "quick"},
        noise={},
    )
    study = drive(service, study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    with service.ledger.read() as session:
        families = reads.list_families(session, study_id)
        live = reads.load_live(session, study_id)
        trial = reads.get_trial(session, live.baselines[0].id)
    assert [family.state for family in families] == [FamilyState.PROMOTED]
    assert {attempt.target for attempt in trial.attempts} == {name}
    target = target_named(service, name)
    wait_until(lambda: not target.list_owned(service.ledger.id), "the last attempt is released")


def facts(service: Service, study_id: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Every entry of the study's chain, in order."""
    with service.ledger.read() as session:
        found = reads.list_entries(session, study_id, limit=100_000)
    return [(entry.kind, entry.payload) for entry in found]
