"""Verbs that look at the ledger: `studies`, `show` and `lineage`."""

from typing import Annotated

import typer

from controller.cli.naming import CandidateName, TrialName, find_anything, find_candidate
from controller.cli.opening import ledger_opened
from controller.cli.output import OK, console, print_json, table
from controller.cli.show_study import print_study
from controller.cli.show_trial import print_candidate, print_trial
from controller.cli.text import clipped, iso, number
from controller.documents.candidates import lineage_document
from controller.documents.studies import listed_document, metric_of, model_of, whole_document
from controller.documents.trials import trial_document
from ledger import lineage as origins
from ledger import reads
from ledger.database import ReadSession
from ledger.records import Json, Study
from ledger.states import StudyState

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]
State = Annotated[
    list[StudyState] | None, typer.Option("--state", help="only studies in this state")
]


def studies(state: State = None, as_json: AsJson = False) -> int:
    """List the studies, the newest first."""
    with ledger_opened() as ledger, ledger.read() as session:
        found = reads.list_studies(session, states=state or None)
    if as_json:
        print_json({"studies": [listed_document(summary) for summary in found]})
        return OK
    if not found:
        print("no studies yet: `arl init DIR` makes an example, `arl run STUDY.yaml` runs one")
        return OK
    rows = [
        (
            summary.study.id,
            clipped(summary.study.name, 32),
            str(summary.study.state),
            str(summary.study.reason or ""),
            str(sum(summary.trials.values())),
            number(summary.best_value),
            clipped(metric_of(summary.study), 24),
            (iso(summary.study.created_at) or "")[:19],
        )
        for summary in found
    ]
    columns = ("study", "name", "state", "reason", ">trials", ">best", "metric", "submitted (UTC)")
    console().print(table(*columns, rows=rows))
    return OK


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
    with ledger_opened() as ledger, ledger.read() as session:
        found = find_anything(session, subject)
        if isinstance(found, TrialName):
            print_trial(ledger, session, found.id, as_json=as_json)
        elif isinstance(found, CandidateName):
            candidate = reads.get_candidate(session, found.id)
            print_candidate(session, candidate, as_json=as_json)
        else:
            _show_study(session, found, trials, as_json=as_json)
    return OK


def _show_study(session: ReadSession, study: Study, trials: int, *, as_json: bool) -> None:
    document = whole_document(session, study)
    families = reads.list_families(session, study.id)
    model = model_of(study)
    incumbents = [] if model is None else reads.list_incumbents(session, model)
    latest = []
    if trials:
        page = reads.list_trials(session, study.id, descending=True, limit=trials)
        latest = list(reversed(page.items))
    document["trials"] = [trial_document(item.trial, item.candidate) for item in latest]
    if as_json:
        print_json(document)
    else:
        print_study(study, document, families, incumbents, latest)


Candidate = Annotated[
    str, typer.Argument(metavar="CANDIDATE", help="a candidate's id, or STUDY/NUMBER of its trial")
]


def lineage(candidate: Candidate, as_json: AsJson = False) -> int:
    """Show what a candidate was made of, its trials, scores, families and promotions."""
    with ledger_opened() as ledger, ledger.read() as session:
        found = find_candidate(session, candidate)
        nodes = origins.lineage(session, found.id)
    if as_json:
        print_json(lineage_document(found.id, nodes))
        return OK
    depth: dict[str, int] = {}
    for node in nodes:
        depth[node.id] = 1 + max((depth.get(parent, 0) for parent in node.came_from), default=-1)
        facts = " ".join(f"{key}={_fact(value)}" for key, value in node.facts.items())
        print(f"{'  ' * depth[node.id]}{node.kind} {clipped(node.id, 90)}  {clipped(facts, 160)}")
    return OK


def _fact(value: Json) -> str:
    if isinstance(value, float):
        return number(value)
    text = str(value)
    return text[:12] if len(text) == 64 and text.isalnum() else text
