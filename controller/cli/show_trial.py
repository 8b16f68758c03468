"""`arl show TRIAL` and `arl show CANDIDATE` for people, from their documents."""

from collections.abc import Mapping

from controller.cli.network import print_network
from controller.cli.output import console, table
from controller.cli.show_conversion import print_conversion
from controller.cli.show_study import listed, optional_number
from controller.cli.text import clipped, duration, number, params, plain, size
from ledger.records import Json


def print_trial(document: Mapping[str, Json]) -> None:
    """A trial, its attempts with the ends of their logs, its scores and its decision. The
    document is `detail_document`'s, with `network` and `log_tails`."""
    for line in (*_facts(document), *_patch(document)):
        print(line)
    _print_attempts(document)
    _print_scores(document)
    print_network(document.get("network"))


def _facts(trial: Mapping[str, Json]) -> list[str]:
    reason = f" ({trial['reason']})" if trial.get("reason") else ""
    head = f"trial {trial['number']} of {trial['study']}, {trial['kind']}"
    lines = [f"{head}: {trial['outcome']}{reason}"]
    if trial.get("detail"):
        lines.append(f"  {clipped(str(trial['detail']), 500)}")
    given = trial.get("params")
    took = duration(optional_number(trial.get("wall_s")))
    lines += [
        f"  candidate {trial['candidate']} by {plain(str(trial['proposer']))}, "
        f"seed {trial['seed']}",
        f"  {params(given if isinstance(given, Mapping) else {}, 1000)}",
        f"  started {trial.get('started_at') or '-'}, took {took}",
        *_origin(trial),
    ]
    if trial.get("family") is not None:
        lines.append(f"  replay {trial.get('stage')} of family {trial['family']}")
    decision = trial.get("decision")
    if isinstance(decision, Mapping):
        lines.append(
            f"  decided: {decision['verdict']}, {decision['reason']} (margin "
            f"{_number(decision['margin'])}, noise {_number(decision['noise_floor'])}, compared "
            f"with {decision['compared_with'] or 'the baseline'})"
        )
    return lines


def _number(value: Json) -> str:
    return number(optional_number(value))


def _origin(document: Mapping[str, Json]) -> list[str]:
    lines = []
    if document.get("parent") is not None:
        lines.append(f"  made from {document['parent']}")
    if document.get("rationale"):
        lines.append(f"  why it was tried: {clipped(str(document['rationale']), 500)}")
    return lines


def _patch(document: Mapping[str, Json]) -> list[str]:
    """What it changes of its parent's source."""
    patch = document.get("patch")
    if not isinstance(patch, str):
        return []
    changed = plain(patch, keep="\n").splitlines()
    return ["the patch:", *(f"  | {line}" for line in changed)]


def _print_attempts(trial: Mapping[str, Json]) -> None:
    attempts = list(listed(trial, "attempts"))
    rows = [
        (
            str(attempt["id"]),
            f"{attempt['kind']} {attempt.get('split') or ''}".strip(),
            str(attempt["state"]),
            str(attempt.get("reason") or ""),
            "-" if attempt.get("exit_code") is None else str(attempt["exit_code"]),
            duration(optional_number(attempt.get("wall_s"))),
            _size(attempt.get("max_rss_bytes")),
        )
        for attempt in attempts
    ]
    columns = ("attempt", "kind", "state", "reason", ">exit", ">took", ">memory")
    console().print(table(*columns, rows=rows))
    tails = trial.get("log_tails")
    for attempt in attempts:
        _print_tail(attempt, tails if isinstance(tails, Mapping) else {})


def _size(value: Json) -> str:
    found = optional_number(value)
    return "-" if found is None else size(found)


def _print_tail(attempt: Mapping[str, Json], tails: Mapping[str, Json]) -> None:
    name = str(attempt["id"])
    if attempt.get("detail"):
        print(f"{name}: {clipped(str(attempt['detail']), 500)}")
    tail = tails.get(name)
    if isinstance(tail, str) and tail:
        print(f"end of the log of {name}:")
        for line in tail.splitlines()[-12:]:
            print(f"  | {line}")


def _print_scores(trial: Mapping[str, Json]) -> None:
    rows = [
        (str(found["split"]), clipped(metric, 60), _number(value), str(found["artifact"])[:12])
        for found in listed(trial, "evaluations")
        for metric, value in _scores(found).items()
    ]
    if rows:
        console().print(table("split", "metric", ">score", "artifact", rows=rows))
    _print_let_go(trial)
    latest = [
        (clipped(str(v["metric"]), 60), str(v["step"]), _number(v["value"]))
        for v in listed(trial, "latest")
    ]
    if latest:
        console().print(table("last reported", ">step", ">value", rows=latest))


def _print_let_go(trial: Mapping[str, Json]) -> None:
    for artifact in listed(trial, "artifacts"):
        gone = artifact.get("let_go")
        if isinstance(gone, Mapping):
            why = str(gone["reason"]).replace("_", " ")
            print(
                f"{artifact['role']} {str(artifact['digest'])[:12]} was let go by retention on "
                f"{str(gone['at'])[:10]} ({plain(str(gone['policy']))}: {why})"
            )


def _scores(evaluation: Mapping[str, Json]) -> Mapping[str, Json]:
    found = evaluation.get("scores")
    return found if isinstance(found, Mapping) else {}


def print_candidate(candidate: Mapping[str, Json]) -> None:
    """A candidate and every execution of it, from `candidate_document`'s."""
    proposer = plain(str(candidate["proposer"]))
    given = candidate.get("params")
    print(f"candidate {candidate['candidate']}: {candidate['state']}, by {proposer}")
    print(f"  {params(given if isinstance(given, Mapping) else {}, 1000)}")
    for line in (*_origin(candidate), *_patch(candidate)):
        print(line)
    rows = [
        (
            str(trial["number"]),
            f"{trial['kind']} {trial.get('stage') or ''}".strip(),
            str(trial["outcome"]),
            str(trial.get("reason") or ""),
            _number(trial.get("value")),
            duration(optional_number(trial.get("wall_s"))),
        )
        for trial in listed(candidate, "trials")
    ]
    console().print(table(">trial", "kind", "outcome", "reason", ">value", ">took", rows=rows))
    for conversion in listed(candidate, "conversions"):
        print_conversion(conversion)
