"""`arl reproduce`: a directory with which a stranger repeats a trial and its evaluation."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli import reproduce_script
from controller.cli.naming import find_candidate, find_promoted, find_trial_id
from controller.cli.opening import service_opened
from controller.cli.output import CHECK_FAILED, OK, print_json
from controller.cli.recipe import EVALUATOR_PLACE, Recipe, choose_trial, make_recipe
from controller.cli.requirements import requirements
from controller.cli.text import plain
from controller.drafts import check_new, new_directory
from controller.spec.loading import resolved
from controller.steps.attempt_specs import program_of
from controller.wiring import Service
from ledger import reads, summaries
from ledger.database import ReadSession
from ledger.errors import ArlError, NotFound
from ledger.records import Json

Subject = Annotated[
    str,
    typer.Argument(
        metavar="PROMOTION|CANDIDATE|TRIAL",
        help="a model's name (NAME:NUMBER, NAME@ALIAS), a candidate's or trial's id, STUDY/NUMBER",
    ),
]
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="a directory to make")]
Run = Annotated[bool, typer.Option("--run", help="also repeat it here, and compare")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def reproduce(
    subject: Subject, directory: Directory, run: Run = False, as_json: AsJson = False
) -> int:
    """Write everything it takes to repeat a promoted (or any scored) trial without ARL.

    `python DIR/reproduce.py` trains and evaluates again and compares: the same model to the bit,
    else every score inside its stated interval. Exit code 1 with --run: neither. The directory
    holds the evaluator and its held-out items: whoever gets it can tune to them.
    """
    check_new(directory, "DIR")
    with service_opened() as service:
        with service.ledger.read() as session:
            trial_id = _trial_id(session, subject)
            recipe = make_recipe(session, service.store, trial_id)
        _write(service, recipe, directory)
    document: dict[str, Json] = {
        "directory": str(directory),
        "trial": trial_id,
        "candidate": recipe.detail.candidate.id,
        "artifact": recipe.document["artifact"],
        "expected": recipe.document["expected"],
        "result": None,
    }
    if not as_json:
        print(f"wrote {plain(str(directory))}: trial {trial_id}; repeat it with")
        print(f"  python {plain(str(directory / 'reproduce.py'))}", flush=True)
    if not run:
        if as_json:
            print_json(document)
        return OK
    return _repeat(directory, document, as_json=as_json)


def _repeat(directory: Path, document: dict[str, Json], *, as_json: bool) -> int:
    command = [sys.executable, str(directory / "reproduce.py")]
    if not as_json:
        return OK if subprocess.run(command, check=False).returncode == 0 else CHECK_FAILED
    done = subprocess.run([*command, "--json"], check=False, capture_output=True)
    document["result"] = json.loads(done.stdout)
    print_json(document)
    return OK if done.returncode == 0 else CHECK_FAILED


def _trial_id(session: ReadSession, subject: str) -> str:
    """The trial that a promotion, candidate or trial name means. Raises NotFound."""
    promoted = find_promoted(session, subject)
    if promoted is not None:
        return choose_trial(session, reads.get_candidate(session, promoted.candidate_id))
    if summaries.is_candidate(session, subject):
        return choose_trial(session, find_candidate(session, subject))
    try:
        return find_trial_id(session, subject)
    except NotFound as error:
        if "/" in subject:
            raise
        raise NotFound(
            f"no promotion, candidate or trial is called {plain(subject)}: write a model's name "
            "(NAME:NUMBER, NAME@ALIAS), a candidate's id or STUDY/NUMBER"
        ) from error


# --- what is written ---------------------------------------------------------------------------


def _write(service: Service, recipe: Recipe, directory: Path) -> None:
    with new_directory(directory, "DIR") as draft:
        for place, digest in recipe.trees.items():
            (draft / place).parent.mkdir(parents=True, exist_ok=True)
            service.store.copy_tree(digest, draft / place)
        shutil.copyfile(reproduce_script.__file__, draft / "reproduce.py")
        _write_json(draft / "reproduction.json", recipe.document)
        _write_json(draft / "study.json", resolved(recipe.spec))
        _write_json(draft / "environment.json", _environment(service, recipe))
        bundle = recipe.trees.get(EVALUATOR_PLACE)
        files = [] if bundle is None else service.store.manifest(bundle)
        needed = requirements(recipe.spec, files)
        (draft / "requirements.txt").write_text(needed, encoding="utf-8")
        (draft / "README.md").write_text(_readme(recipe), encoding="utf-8")


def _write_json(path: Path, document: Json) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _environment(service: Service, recipe: Recipe) -> dict[str, Json]:
    """As it was when the study was submitted; of this machine now where an older ARL did not
    record that."""
    with service.ledger.read() as session:
        first = reads.list_entries(session, recipe.study.id, limit=1)
    recorded = first[0].payload.get("environment") if first else None
    if recorded:
        return {"fingerprint": recorded, "comparison": recipe.study.comparison}
    try:
        program = program_of(recipe.spec)
        fingerprint = service.training_target(recipe.spec).fingerprint(program)
    except ArlError as error:
        fingerprint = f"unknown: {error}"
    return {"fingerprint": fingerprint, "comparison": recipe.study.comparison}


def _readme(recipe: Recipe) -> str:
    trial, candidate = recipe.detail.trial, recipe.detail.candidate
    expected = json.dumps(recipe.document["expected"], indent=2)
    return f"""# Repeat trial {trial.number} of study {recipe.study.name}

    python reproduce.py

trains with the recorded program, inputs, parameters and seed, evaluates the model with the frozen
evaluator, and compares. Exit code 0: the same model to the bit, or every score inside the interval
below. It needs Python 3.11 and what the programs need, and no ARL. In an environment of its own:

    python3 -m venv env
    env/bin/python -m pip install -r requirements.txt    # its first lines say of which Python
    env/bin/python reproduce.py --python env/bin/python

- trial `{trial.id}`, seed {trial.seed}, candidate `{candidate.id}`
- parameters: `{json.dumps(dict(candidate.params))}`
- model artifact (tree digest): `{recipe.document["artifact"]}`
- evaluator bundle: `{recipe.study.bundle_digest or "reported by the program itself"}`

Scores of `{recipe.spec.objective.metric}` to expect, by split: `value` is this trial's; one more
run of the candidate falls between `low` and `high` 95 % of the time, judged by its `runs` and the
baseline's.

```json
{expected}
```

`inputs/` and `evaluator/` are what the digests in `reproduction.json` say, or `reproduce.py`
refuses. `evaluator/` holds held-out items: whoever reads them can tune to them.
"""
