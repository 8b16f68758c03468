"""Asks a server what `asking` asks the ledger here."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from controller.cli.server_promotions import find_candidate_id
from controller.cli.server_source import ServerSource
from controller.cli.values import parse_params
from controller.client import Client
from controller.documents.finite import unflagged
from controller.documents.plan_system import Rates, System, system_document
from controller.spec.loading import resolved
from controller.spec.study import StudySpec
from ledger.records import CommandVerb, Json

POLL_S: Final = 0.2
WAIT_S: Final = 15.0
_ENDED: Final = ("completed", "failed", "cancelled")
_PATHS: Final[Mapping[CommandVerb, str]] = {
    CommandVerb.ENQUEUE: "trials",
    **{verb: str(verb) for verb in (CommandVerb.PAUSE, CommandVerb.STOP, CommandVerb.CANCEL)},
    CommandVerb.RESUME: "resume",
}

Document = dict[str, Json]


def ask_study(
    name: str, verb: CommandVerb, arguments: Mapping[str, Json], *, wait: bool
) -> Document:
    """How the request stands, as `requests.Answer.document`. Raises what a ledger here would."""
    with Client() as client:
        source = ServerSource(client)
        study = source.study_id(name)
        if verb is CommandVerb.EXTEND:
            answer = client.extend(study, arguments, wait_s=WAIT_S).model_dump(mode="json")
            found: Document = {**answer, "by": client.connection.server}
        else:
            found = _post(client, f"/studies/{study}/{_PATHS[verb]}", dict(arguments) or None)
        if wait and found["answer"] != "pending":
            found |= _at_rest(source, str(found["study"]), verb)
        return found


def ask_for(candidate: str, verb: CommandVerb, *, wait: bool, note: str = "") -> Document:
    """The same of a candidate: `replay`, `promote` (approve, or else replay) or `decline`."""
    with Client() as client:
        source = ServerSource(client)
        candidate = find_candidate_id(client, candidate)
        address = _address(client, candidate, verb)
        said = {"note": note} if note and address.endswith("/approve") else None
        found = _post(client, address, said)
        if wait and found["answer"] != "pending":
            found |= _at_rest(source, str(found["study"]), verb)
        return found


def convert_for(candidate: str, wanted: Mapping[str, Json], *, wait: bool) -> Document:
    """The same of a conversion."""
    with Client() as client:
        source = ServerSource(client)
        candidate = find_candidate_id(client, candidate)
        found = _post(client, f"/candidates/{candidate}/convert", dict(wanted))
        if wait and found["answer"] != "pending":
            found |= _at_rest(source, str(found["study"]), CommandVerb.CONVERT)
        return found


def _address(client: Client, candidate: str, verb: CommandVerb) -> str:
    """Of its promotion that awaits approval, or else of the candidate."""
    study = client.candidate(candidate).study
    for promotion in client.promotions(study=study, state="awaiting_approval"):
        if promotion.evidence.get("best") == candidate and verb is not CommandVerb.REPLAY:
            word = "approve" if verb is CommandVerb.PROMOTE else "decline"
            return f"/promotions/{promotion.family}/{word}"
    if verb is CommandVerb.DECLINE:
        return f"/promotions/{candidate}/decline"  # there is none: the server says so
    return f"/candidates/{candidate}/replay"


def _post(client: Client, path: str, body: Any) -> Document:
    answer: Document = client.connection.post(path, body, params={"wait": WAIT_S}).json()
    return {**answer, "by": client.connection.server}


def _at_rest(source: ServerSource, study: str, verb: CommandVerb) -> Document:
    """The study's state once the request has had its whole effect."""
    while True:
        found = source.study(study)
        state = str(found["state"])
        running = verb is CommandVerb.EXTEND and state == "running"
        paused = state == "paused" and not _runs(found)
        if state in _ENDED or paused or running:
            return {"state": state, "reason": found["reason"], "detail": found["detail"]}
        time.sleep(POLL_S)


def _runs(study: Document) -> bool:
    """Whether any trial of it is under way."""
    counts = study.get("counts")
    kinds = counts.values() if isinstance(counts, Mapping) else ()
    return any(
        outcomes.get(word)
        for outcomes in kinds
        if isinstance(outcomes, Mapping)
        for word in ("running", "evaluating", "deciding")
    )


def plan(
    spec: StudySpec, trial_wall_s: float | None, rates: Rates, system: System | None
) -> Document:
    """What the server says of a study file; the memory is estimated here, where its model is."""
    given = asdict(rates)
    asked = {
        "study": resolved(spec),
        "trial_wall_s": trial_wall_s,
        "rollouts": given if any(value is not None for value in given.values()) else None,
    }
    with Client() as client:
        answer = unflagged(
            client.connection.post("/plans/study", asked, is_repeatable=True).json()
        )
    found: Document = dict(answer) if isinstance(answer, dict) else {}
    return {**found, "memory": system_document(system)["memory"]}


def trial_arguments(
    name: str, given: Sequence[str], patch: str | None, parent: str | None
) -> dict[str, Json]:
    """The body of a trial that is asked for, its values read by the study's space."""
    with Client() as client:
        source = ServerSource(client)
        arguments: dict[str, Json] = {}
        if given or patch is None:
            spec = client.connection.get(f"/studies/{source.study_id(name)}/spec")["spec"]
            arguments["params"] = parse_params(spec, list(given))
        if patch is not None:
            arguments["patch"] = patch
        if parent is not None:
            arguments["parent"] = find_candidate_id(client, parent)
        return arguments


def submit(study: Path, *, new: bool) -> Document:
    """Send a study file with everything that it names."""
    with Client() as client:
        made = client.submit(study, new=new)
        found: Document = made.model_dump(mode="json")
        return found
