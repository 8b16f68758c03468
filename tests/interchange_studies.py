"""Shared by the tests of imports and exports: studies of other tools, and ours to give away."""

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.interchange.autoresearch_import import taken_from_autoresearch
from controller.interchange.taking_in import Taken
from controller.steps.importing import ImportedStudy
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger
from ledger.digests import json_digest
from ledger.entries import InputsFrozen, StudySubmitted
from ledger.records import Split, TrialKind, Verdict
from ledger.verify import verify_ledger
from ledger.writes import create_study
from tests.ledger_builders import BUNDLE, COMPARISON, SECRET, Driven, claim

NOBODY = "tester"

SPEC: Mapping[str, Any] = {
    "name": "ours",
    "objective": {"metric": "loss", "direction": "minimize"},
    "program": {"kind": "command", "argv": ["/bin/true"]},
    "space": {
        "lr": {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
        "drop": {"type": "float", "low": 0.0, "high": 0.55, "step": 0.1},
        "layers": {"type": "int", "low": 1, "high": 12},
        "batch": {"type": "int", "low": 8, "high": 60, "step": 8},
        "kind": {"type": "categorical", "choices": ["sgd", "adam", 1, True]},
        "beta": {"type": "float", "low": 0.5, "high": 1.0, "when": {"kind": "adam"}},
    },
    "evaluator": {"bundle": "evaluator", "metrics": {"loss": {}, "accuracy": {}}},
}
PARAMS: Mapping[str, Any] = {"lr": 0.01, "drop": 0.3, "layers": 3, "batch": 16, "kind": "sgd"}


def quiet(_count: int) -> None:
    """Progress that nobody follows."""


def ours(ledger: Ledger, *, spec: Mapping[str, Any] = SPEC) -> Driven:
    """A claimed study with a whole spec, as `tests.ledger_builders` records trials in."""
    entry = StudySubmitted(
        name=spec["name"],
        spec_digest=json_digest(dict(spec)),
        bundle_digest=BUNDLE,
        comparison=COMPARISON,
        seed=7,
        actor=NOBODY,
    )
    with ledger.write() as session:
        create_study(session, "s1", spec=spec, secret=SECRET, budgets={}, entry=entry)
    return Driven(ledger, "s1", claim(ledger, "s1"))


def record(taken: Taken, ledger: Ledger) -> ImportedStudy:
    return taken.record(ledger, actor=NOBODY, progress=quiet)


def is_sound(ledger: Ledger) -> bool:
    return verify_ledger(ledger, None) == []


@contextmanager
def warnings_allowed() -> Iterator[None]:
    """For what Optuna itself warns of while a test makes an awkward study."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- a run directory of autoresearch-rl, as version 0.5 writes it ------------------------------

EPISODE = "1a07d87510a9"


def manifest(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "run_id": f"{number:012x}",
        "ts": 1_796_030_691 + number,
        "episode_id": EPISODE,
        "iter": number,
        "status": "ok",
        "decision": "keep",
        "metrics": {"score": number / 10, "elapsed": 1.5},
        "params": {"x": [0.1, 0.2, 0.3][number % 3], "opt": ["adam", "sgd"][number % 2]},
        "stdout": "",
        "stderr": "",
        "run_dir": f"artifacts/runs/run-{number:04d}",
        **changes,
    }


def autoresearch_run(
    directory: Path, *manifests: Mapping[str, Any], policy: Mapping[str, Any] | None = None
) -> Path:
    runs = directory / "artifacts" / "runs"
    runs.mkdir(parents=True)
    lists = {"x": [0.1, 0.2, 0.3], "opt": ["adam", "sgd"]} if policy is None else policy
    config = {
        "objective": {"metric": "score", "direction": "max"},
        "policy": {"type": "random", "params": lists},
    }
    about = {"run_id": EPISODE, "config": config}
    (runs / "run-manifest.json").write_text(json.dumps(about))
    rows = ["episode_id\titer"]
    for written in manifests:
        folder = runs / str(written["run_id"])
        folder.mkdir()
        (folder / "manifest.json").write_text(json.dumps(written))
        rows.append(f"{written['episode_id']}\t{written['iter']}")
    (directory / "artifacts" / "results.tsv").write_text("\n".join(rows) + "\n")
    return directory


def reports(directory: Path, number: int, lines: list[str]) -> None:
    folder = directory / "artifacts" / "runs" / f"run-{number:04d}"
    folder.mkdir()
    (folder / "progress.jsonl").write_text("\n".join(lines) + "\n")


@contextmanager
def autoresearch_taken(directory: Path, study: str | None = None) -> Iterator[Taken]:
    with taken_from_autoresearch(str(directory), study=study, progress=quiet) as taken:
        yield taken


# --- a study of ours that promoted a model ------------------------------------------------------


def promoting(ledger: Ledger, store: ArtifactStore, model: Path) -> str:
    """One search trial whose candidate was confirmed and promoted, its model that directory's
    content; its tree digest."""
    digest = store.put_tree(model)
    study = ours(ledger)
    study.record(InputsFrozen(inputs={"base": "a" * 64}, report={}))
    for number in (0, 1):
        if number == 0:
            study.record(study.proposed(0, params=PARAMS), study.launching(0))
        else:
            replay = study.proposed(
                1, kind=TrialKind.REPLAY, of_candidate=0, family_id="s1-f1", stage="confirm:0"
            )
            study.record(study.family(), replay, study.launching(1))
        study.record(study.started(number), study.values(number, 0, CURVE))
        study.record(
            study.exited(number),
            study.saved(number, digest=digest),
            study.launching(number, split=Split.SEARCH),
        )
        study.record(
            study.started(number, split=Split.SEARCH),
            study.exited(number, split=Split.SEARCH),
            study.scored(number, 0.25),
            study.decided(
                number,
                0.25,
                kind=TrialKind.REPLAY if number else TrialKind.SEARCH,
                verdict=Verdict.MEASURED if number else Verdict.KEEP,
                of_candidate=0,
            ),
        )
    study.record(study.promotion(0))
    return digest


CURVE = [(1, "loss", 2.0), (2, "loss", math.nan), (3, "loss", math.inf), (3, "a/b c?", 1.0)]
