"""`arl convert`: makes something of a promoted model, and judges it on the holdout."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.asking import AsJson, CandidateName, Wait, print_answer
from controller.cli.naming import find_candidate
from controller.cli.opening import service_opened
from controller.cli.requests import ask
from controller.cli.source import server_named
from controller.spec.convert_rules import parse_conversion
from controller.spec.interpreters import interpreter_problems
from controller.spec.loading import parse_study
from controller.spec.study import StudySpec
from ledger import reads
from ledger.errors import InvalidInput
from ledger.records import CommandVerb, Json

FIELD: Final = "convert[0].python"


def convert(
    candidate: CandidateName,
    *,
    merge: Annotated[
        bool | None, typer.Option("--merge/--keep", help="merge the adapter, or keep it beside")
    ] = None,
    quantize: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="int8, int4, gptq or awq")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="how much worse still counts as no worse")
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(help="int4, gptq, awq: weights that share a scale")
    ] = None,
    calibration_rows: Annotated[
        int | None, typer.Option(help="gptq, awq: rows of the training data")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="how many confirmation runs are converted")
    ] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PROGRAM", help="interpreter with the libraries")
    ] = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> int:
    """Make something of a promoted candidate's model: a trial of its own converts it, measures it
    beside the unconverted one and puts it through the frozen evaluator on the holdout. It may be
    served only if it is no worse by the margin. `arl show CANDIDATE` has the figures."""
    given = {
        "merge": merge,
        "quantize": quantize,
        "margin": margin,
        "group_size": group_size,
        "calibration_rows": calibration_rows,
        "seeds": seeds,
        "python": python,
    }
    wanted: dict[str, Json] = {k: v for k, v in given.items() if v is not None}
    if not server_named():
        return print_answer(_asked_here(candidate, wanted, wait=wait), as_json=as_json)
    from controller.cli.server_asking import convert_for

    if python is not None:
        raise InvalidInput("convert: --python: a server opens no path that a client names")
    return print_answer(convert_for(candidate, wanted, wait=wait), as_json=as_json)


def _asked_here(candidate: str, wanted: dict[str, Json], *, wait: bool) -> dict[str, Json]:
    with service_opened() as service:
        with service.ledger.read() as session:
            found = find_candidate(session, candidate)
            spec = parse_study(reads.get_study(session, found.study_id).spec)
        parse_conversion(spec, wanted)  # what is wrong is said before anything is asked
        if "python" in wanted:
            wanted["python"] = _found_here(spec, str(wanted["python"]))
        arguments: dict[str, Json] = {"candidate_id": found.id, "convert": wanted}
        answer = ask(service, found.study_id, CommandVerb.CONVERT, arguments, wait=wait)
    return answer.document()


def _found_here(spec: StudySpec, python: str) -> str:
    """An interpreter as the study's target finds it. Raises InvalidInput."""
    here = Path.cwd()
    if problems := list(interpreter_problems(spec, FIELD, python, here)):
        raise InvalidInput("; ".join(map(str, problems)))
    return str(here / python) if os.sep in python else python
