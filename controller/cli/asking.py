"""Verbs that ask something of a study: `pause`, `stop`, `cancel`, `extend`, `trial`, `replay`,
`promote` and `decline`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.naming import find_candidate
from controller.cli.opening import service_opened
from controller.cli.output import OK, print_json
from controller.cli.requests import PENDING, ask, study_id_of
from controller.cli.source import server_named
from controller.cli.text import clipped, plain
from controller.cli.values import parse_fields, parse_params
from controller.registry.names import check_note
from controller.spec.quantities import parse_count, parse_duration_s
from ledger import reads
from ledger.errors import InvalidInput
from ledger.records import CommandVerb, Json, Resource
from ledger.states import STUDY_TERMINAL

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="id, unique name, beginning of an id, or `last`")
]
CandidateName = Annotated[
    str,
    typer.Argument(
        metavar="CANDIDATE",
        help="its id, STUDY/NUMBER of its trial, or a model's name (NAME:NUMBER, NAME@ALIAS)",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="until it has had its whole effect")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def pause(study: StudyName, wait: Wait = False, as_json: AsJson = False) -> int:
    """Start no more trials; running ones go on. `arl resume STUDY` goes on.

    --wait returns when nothing of it runs any more.
    """
    return _ask_study(study, CommandVerb.PAUSE, {}, wait=wait, as_json=as_json)


def stop(study: StudyName, wait: Wait = False, as_json: AsJson = False) -> int:
    """Let running trials finish, then complete the study; nothing is replayed or promoted."""
    return _ask_study(study, CommandVerb.STOP, {}, wait=wait, as_json=as_json)


def cancel(study: StudyName, wait: Wait = False, as_json: AsJson = False) -> int:
    """End the study and every process of it, now. Final."""
    return _ask_study(study, CommandVerb.CANCEL, {}, wait=wait, as_json=as_json)


def extend(
    study: StudyName,
    *,
    trials: Annotated[str | None, typer.Option(help="+20 for more, 60 for a new limit")] = None,
    wall_time: Annotated[str | None, typer.Option(help="like +1h30m")] = None,
    gpu_hours: Annotated[str | None, typer.Option(help="like +2.5")] = None,
    llm_tokens: Annotated[str | None, typer.Option(help="like +1M")] = None,
    llm_cost: Annotated[str | None, typer.Option(help="in dollars, like +5")] = None,
    parallel: Annotated[int | None, typer.Option(help="trials at once from now on")] = None,
    weight: Annotated[float | None, typer.Option(help="share of a machine, beside others")] = None,
    priority: Annotated[int | None, typer.Option(help="goes first where it is higher")] = None,
    stops: Annotated[
        list[str] | None,
        typer.Option(
            "--stop", metavar="FIELD=VALUE", help="of the file's `stop`; `none` takes it away"
        ),
    ] = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> int:
    """Change a study's budgets (`+N` adds to a limit, `N` replaces it), how many trials run at
    once, its share of the machine, or when it stops looking. What runs goes on. A completed study
    searches on; run it with `arl resume` where no worker waits."""
    given: dict[Resource, tuple[str, str | None, Callable[[str], float]]] = {
        Resource.TRIALS: ("--trials", trials, _count),
        Resource.WALL_S: ("--wall-time", wall_time, _seconds),
        Resource.GPU_S: ("--gpu-hours", gpu_hours, lambda text: float(text) * 3600),
        Resource.LLM_TOKENS: ("--llm-tokens", llm_tokens, _count),
        Resource.LLM_COST_USD: ("--llm-cost", llm_cost, float),
    }
    changes: dict[str, Json] = {
        str(resource): _change(option, text, read)
        for resource, (option, text, read) in given.items()
        if text is not None
    }
    numbers = {"parallel": parallel, "weight": weight, "priority": priority}
    changes.update({name: number for name, number in numbers.items() if number is not None})
    if stops:
        changes["stop"] = parse_fields("stop", stops)
    if not changes:
        raise InvalidInput("extend: say what to extend, for example --trials +20")
    return _ask_study(study, CommandVerb.EXTEND, changes, wait=wait, as_json=as_json)


def _count(text: str) -> float:
    return float(text) if text.isdecimal() else float(parse_count(text))


def _seconds(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdecimal() else parse_duration_s(text)


def _change(option: str, text: str, read: Callable[[str], float]) -> Json:
    amount = text.removeprefix("+")
    try:
        value = read(amount)
    except ValueError as error:
        raise InvalidInput(
            f"extend: {option}: {plain(text)!r}: write an amount, or + and an amount ({error})"
        ) from None
    if not 0 < value < float("inf"):
        raise InvalidInput(f"extend: {option}: {plain(text)!r}: write a number above 0")
    return {"by" if text.startswith("+") else "to": value}


def trial(
    study: StudyName,
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]…", help="every parameter")
    ] = None,
    params: Annotated[
        list[str] | None, typer.Option("--params", metavar="NAME=VALUE", help="the same")
    ] = None,
    patch: Annotated[
        Path | None,
        typer.Option("--patch", metavar="FILE", help="a diff of program.mutable files"),
    ] = None,
    parent: Annotated[
        str | None,
        typer.Option("--parent", metavar="CANDIDATE", help="whose source the patch changes"),
    ] = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> int:
    """Try these parameters, or this patch, as the study's next trial.

    Values are read as in a study file: 1e-4 is a number, true is true, anything else is text. With
    a patch alone the parameters are the baseline's."""
    given = [*(params or []), *(pairs or [])]
    changed = None if patch is None else _read_text(patch)
    if server_named():
        from controller.cli.server_asking import ask_study, trial_arguments

        wanted = trial_arguments(study, given, changed, parent)
        answered = ask_study(study, CommandVerb.ENQUEUE, wanted, wait=wait)
        return print_answer(answered, as_json=as_json)
    with service_opened() as service:
        study_id = study_id_of(service, study)
        with service.ledger.read() as session:
            spec = reads.get_study(session, study_id).spec
        arguments: dict[str, Json] = {}
        if given or changed is None:
            arguments["params"] = parse_params(spec, given)
        if changed is not None:
            arguments["patch"] = changed
        if parent is not None:
            with service.ledger.read() as session:
                arguments["parent_id"] = find_candidate(session, parent).id
        answer = ask(service, study_id, CommandVerb.ENQUEUE, arguments, wait=wait)
    return print_answer(answer.document(), as_json=as_json)


def _read_text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except OSError as error:
        raise InvalidInput(f"--patch {plain(str(file))}: cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"--patch {plain(str(file))}: is no UTF-8 text: {error}") from error


def replay(candidate: CandidateName, wait: Wait = False, as_json: AsJson = False) -> int:
    """Put a candidate before the promotion gate of its completed study."""
    return _ask_for(candidate, CommandVerb.REPLAY, wait=wait, as_json=as_json)


def promote(
    candidate: CandidateName,
    note: Annotated[str, typer.Option("--note", help="why, for those who look later")] = "",
    wait: Wait = False,
    as_json: AsJson = False,
) -> int:
    """Approve a candidate whose gate passed and awaits approval; else put it before the gate.

    Nothing is ever promoted without having passed the gate.
    """
    return _ask_for(
        candidate, CommandVerb.PROMOTE, wait=wait, as_json=as_json, note=check_note(note)
    )


def decline(candidate: CandidateName, wait: Wait = False, as_json: AsJson = False) -> int:
    """Refuse a promotion that awaits approval."""
    return _ask_for(candidate, CommandVerb.DECLINE, wait=wait, as_json=as_json)


def _ask_study(
    name: str, verb: CommandVerb, arguments: Mapping[str, Json], *, wait: bool, as_json: bool
) -> int:
    if server_named():
        from controller.cli.server_asking import ask_study

        return print_answer(ask_study(name, verb, arguments, wait=wait), as_json=as_json)
    with service_opened() as service:
        answer = ask(service, study_id_of(service, name), verb, arguments, wait=wait)
    return print_answer(answer.document(), as_json=as_json)


def _ask_for(name: str, verb: CommandVerb, *, wait: bool, as_json: bool, note: str = "") -> int:
    if server_named():
        from controller.cli.server_asking import ask_for

        return print_answer(ask_for(name, verb, wait=wait, note=note), as_json=as_json)
    with service_opened() as service:
        with service.ledger.read() as session:
            candidate = find_candidate(session, name)
        arguments: dict[str, Json] = {"candidate_id": candidate.id}
        if note:
            arguments["note"] = note
        answer = ask(service, candidate.study_id, verb, arguments, wait=wait)
    return print_answer(answer.document(), as_json=as_json)


def print_answer(answer: Mapping[str, Json], *, as_json: bool) -> int:
    """How a request stands, for a person or as JSON."""
    if as_json:
        print_json(dict(answer))
        return OK
    study, verb = str(answer["study"]), answer["verb"]
    if answer["answer"] == PENDING:
        print(f"{verb}: asked {answer['by']}, which has not answered yet")
        return OK
    detail = f" ({clipped(str(answer['detail']), 200)})" if answer.get("detail") else ""
    print(f"{verb}: done; study {plain(study)} is {answer['state']}{detail}")
    if answer["by"] == "here" and answer["state"] not in STUDY_TERMINAL:
        print(f"  no worker drives it now: `arl resume {study}` goes on")
    return OK
