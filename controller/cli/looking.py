"""Verbs that look at the ledger: `studies`, `show` and `lineage`; here or on a server."""

from collections.abc import Mapping
from typing import Annotated

import typer

from controller.cli.output import OK, console, print_json, table
from controller.cli.show_study import listed, optional_number, print_study
from controller.cli.show_trial import print_candidate, print_trial
from controller.cli.source import source_opened
from controller.cli.text import clipped, number
from ledger.records import Json
from ledger.states import StudyState

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]
State = Annotated[
    list[StudyState] | None, typer.Option("--state", help="only studies in this state")
]


def studies(state: State = None, as_json: AsJson = False) -> int:
    """List the studies, the newest first."""
    with source_opened() as source:
        found = source.studies(state or [])
    if as_json:
        print_json({"studies": list(found)})
        return OK
    if not found:
        print("no studies yet: `arl init DIR` makes an example, `arl run STUDY.yaml` runs one")
        return OK
    rows = [
        (
            str(study["study"]),
            clipped(str(study["name"]), 32),
            str(study["state"]),
            str(study.get("reason") or ""),
            str(_total(study.get("trials"))),
            number(optional_number(study.get("best_value"))),
            clipped(str(study["metric"]), 24),
            str(study.get("submitted_at") or "")[:19],
        )
        for study in found
    ]
    columns = ("study", "name", "state", "reason", ">trials", ">best", "metric", "submitted (UTC)")
    console().print(table(*columns, rows=rows))
    return OK


def _total(counts: Json) -> int:
    found = counts.values() if isinstance(counts, Mapping) else ()
    return sum(count for count in found if isinstance(count, int))


Subject = Annotated[
    str,
    typer.Argument(
        metavar="[STUDY|TRIAL|CANDIDATE]",
        help="a study (id, unique name, beginning of an id, `last`), STUDY/NUMBER, or an id",
    ),
]
Trials = Annotated[
    int, typer.Option("--trials", min=0, max=500, help="how many of its latest trials")
]


def show(subject: Subject = "last", trials: Trials = 20, as_json: AsJson = False) -> int:
    """Show a study, a trial or a candidate; the newest study where nothing is named."""
    with source_opened() as source:
        kind, document = source.anything(subject, trials)
    if as_json:
        print_json(document)
    elif kind == "trial":
        print_trial(document)
    elif kind == "candidate":
        print_candidate(document)
    else:
        print_study(document)
    return OK


Candidate = Annotated[
    str, typer.Argument(metavar="CANDIDATE", help="a candidate's id, or STUDY/NUMBER of its trial")
]


def lineage(candidate: Candidate, as_json: AsJson = False) -> int:
    """Show what a candidate was made of, its trials, scores, families and promotions."""
    with source_opened() as source:
        document = source.lineage(candidate)
    if as_json:
        print_json(document)
        return OK
    depth: dict[str, int] = {}
    for node in listed(document, "nodes"):
        name, parents, given = str(node["id"]), node.get("came_from"), node.get("facts")
        above = parents if isinstance(parents, list) else []
        depth[name] = 1 + max((depth.get(str(parent), 0) for parent in above), default=-1)
        facts = given.items() if isinstance(given, Mapping) else ()
        told = " ".join(f"{key}={_fact(value)}" for key, value in facts)
        print(f"{'  ' * depth[name]}{node['kind']} {clipped(name, 90)}  {clipped(told, 160)}")
    return OK


def _fact(value: Json) -> str:
    if isinstance(value, float):
        return number(value)
    text = str(value)
    return text[:12] if len(text) == 64 and text.isalnum() else text
