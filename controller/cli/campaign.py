"""`arl campaign`: serves a model, learns from consented experience, watches, and takes back."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from controller.cli.campaign_recording import record_experience
from controller.cli.campaign_running import run_campaign, run_once
from controller.cli.opening import actor, ledger_opened, remember_heads, service_opened
from controller.cli.output import OK, console, print_json, table
from controller.cli.text import clipped, plain, several
from controller.documents.campaigns import campaign_document, campaign_rows
from controller.registry.names import check_note
from ledger.campaign_entries import CampaignStopped
from ledger.campaigns import CampaignFact, append_campaign, campaign_facts
from ledger.database import ReadSession
from ledger.errors import Conflict, InvalidInput, NotFound
from ledger.records import Json


class Action(StrEnum):
    RUN = "run"
    ONCE = "once"
    LIST = "list"
    SHOW = "show"
    STOP = "stop"
    RECORD = "record"


_WORDS: Final[Mapping[Action, tuple[int, str]]] = {
    Action.RUN: (1, "arl campaign run CAMPAIGN.yaml"),
    Action.ONCE: (1, "arl campaign once CAMPAIGN.yaml"),
    Action.LIST: (0, "arl campaign list"),
    Action.SHOW: (1, "arl campaign show NAME"),
    Action.STOP: (1, "arl campaign stop NAME"),
    Action.RECORD: (1, "arl campaign record CAMPAIGN.yaml"),
}

What = Annotated[
    Action,
    typer.Argument(metavar="run|once|record|list|show|stop", help="what to do; default: list"),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CAMPAIGN.yaml|NAME]", help="a campaign file, or a campaign's name"),
]
Again = Annotated[bool, typer.Option("--again", help="with run, once: go on although stopped")]
Look = Annotated[
    float,
    typer.Option(
        "--look", min=0.1, max=86_400, help="with run: seconds between two looks at the inbox"
    ),
]
Note = Annotated[str, typer.Option("--note", help="with stop: why")]
Host = Annotated[str, typer.Option("--host", help="with record: address to listen on")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="with record: TCP port; 0: a free one")
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def campaign(
    action: What = Action.LIST,
    words: Words = None,
    again: Again = False,
    look: Look = 10.0,
    note: Note = "",
    host: Host = "127.0.0.1",
    port: Port = 8421,
    as_json: AsJson = False,
) -> int:
    """Serve a model's incumbent, learn from consented records, watch it, and roll back.

    `arl campaign once FILE` does what is to be done now, for a timer; `arl campaign run FILE` goes
    on until it is stopped. Studies run in this process. Exit code 1: an alarm rang; 6: a study
    failed; 5: the server is gone or of no use, and what is served stays. `arl campaign record
    FILE` stands before the model's server and puts what is asked with consent into the inbox.
    """
    given = list(words or [])
    count, example = _WORDS[action]
    if len(given) != count:
        raise InvalidInput(f"campaign {action}: write `{example}`")
    if action is Action.LIST:
        return _list(as_json=as_json)
    if action is Action.SHOW:
        return _show(given[0], as_json=as_json)
    if action is Action.STOP:
        return _stop(given[0], check_note(note), as_json=as_json)
    if action is Action.RECORD:
        return record_experience(Path(given[0]), host=host, port=port, as_json=as_json)
    if action is Action.ONCE:
        return run_once(Path(given[0]), again=again, as_json=as_json)
    return run_campaign(Path(given[0]), again=again, look_s=look, as_json=as_json)


def _list(*, as_json: bool) -> int:
    with ledger_opened() as ledger, ledger.read() as session:
        rows = campaign_rows(campaign_facts(session))
    if as_json:
        listed: list[Json] = list(rows)
        print_json({"campaigns": listed})
        return OK
    if not rows:
        print("no campaign was begun yet: `arl campaign once CAMPAIGN.yaml` begins one")
        return OK
    names = ("campaign", "model", "state", "new_records", "studies", "running", "alarms")
    shown = [[_cell(row[name]) for name in names] for row in rows]
    console().print(table(*(name.replace("_", " ") for name in names), rows=shown))
    return OK


def _facts(session: ReadSession, name: str) -> list[CampaignFact]:
    facts = campaign_facts(session, name)
    if not facts:
        raise NotFound(f"no campaign is called {plain(name)}: `arl campaign list` lists them")
    return facts


def _show(name: str, *, as_json: bool) -> int:
    with ledger_opened() as ledger, ledger.read() as session:
        document = campaign_document(_facts(session, name))
    if as_json:
        print_json(document)
    else:
        tell_campaign(document)
    return OK


def _stop(name: str, note: str, *, as_json: bool) -> int:
    with service_opened() as service:
        with service.ledger.write() as session:
            facts = _facts(session, name)
            latest = facts[-1].entry
            if isinstance(latest, CampaignStopped):
                raise Conflict(f"campaign {plain(name)} was stopped by {latest.actor} already")
            append_campaign(
                session,
                CampaignStopped(campaign=name, number=latest.number + 1, actor=actor(), note=note),
            )
            document = campaign_document(_facts(session, name))
        remember_heads(service)
    if as_json:
        print_json(document)
        return OK
    print(f"{plain(name)} is stopped; what is served stays", end="")
    running = document["running"]
    print(f", and so does study {running} (`arl cancel {running}` ends it)" if running else "")
    return OK


def tell_campaign(document: Mapping[str, Json]) -> None:
    """One campaign, for a person."""
    name, model = plain(str(document["campaign"])), plain(str(document["model"]))
    studies = several(document["studies"], "study", "studies")
    print(f"{name}: model {model}, {document['state']}, {studies} so far")
    experience = document["experience"]
    if isinstance(experience, Mapping):
        print(
            f"experience: {several(experience['training'], 'record')} to train on "
            f"({document['new_records']} new), {experience['held_out']} held out, "
            f"{experience['without_consent']} without consent (not kept), "
            f"{experience['duplicates']} known already, {experience['invalid']} refused"
        )
        problems = experience["problems"]
        for problem in problems if isinstance(problems, list) else ():
            print(f"  {plain(str(problem))}")
    study = document["study"]
    if isinstance(study, Mapping):
        promotion = study["promotion"]
        told = "" if promotion is None else f", promoted number {promotion}"
        print(f"study {study['study']}: {study['state']}, {study['records']} records{told}")
    for one in _items(document["slices"]):
        print(_slice_line(one))
    for one in _items(document["alarm_list"]):
        settled = f"; settled: {one['settled']}" if one["settled"] else ""
        print(plain(f"alarm {one['number']} ({one['alarm']}, {one['action']}): {one['detail']}"))
        print(plain(f"  {one['at']}{settled}"))
    failed = document["failed"]
    if isinstance(failed, Mapping):
        print(plain(f"last cycle failed ({failed['step']}): {failed['detail']}"))


def _slice_line(one: Mapping[str, Json]) -> str:
    compared = one["comparison"]
    told = ""
    if isinstance(compared, Mapping):
        told = f", dropped by {compared['drop']:.4g} (at least {compared['low95']:.4g})"
    forgotten = ", FORGOTTEN" if one["forgotten"] else ""
    return plain(
        f"slice {one['slice']}: {one['value']:.4g} as {one['served_as']}{told}{forgotten}"
    )


def _items(value: Json) -> Sequence[Mapping[str, Json]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _cell(value: Json) -> str:
    return "-" if value is None else clipped(str(value), 60)
