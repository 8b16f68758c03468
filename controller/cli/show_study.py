"""`arl show STUDY` for people, from its document, whoever made it: this machine or a server."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.cli.endings import ending_lines
from controller.cli.model_calls import model_lines
from controller.cli.output import console, table
from controller.cli.shares import share_facts
from controller.cli.text import clipped, duration, number, params, plain
from ledger.records import Json

_UNITS = {"wall_s": ("wall time (min)", 60.0), "gpu_s": ("GPU hours", 3600.0)}


def print_study(document: Mapping[str, Json]) -> None:
    """Everything a person asks first: how it stands, what is best, what it cost, what the gate
    said, and the latest trials. The document is `whole_document`'s, with `trials`."""
    out = console()
    for line in ending_lines(document):
        out.print(Text(line, style="" if line.startswith(" ") else "bold"))
    _standing(out, document)
    _budgets(out, document.get("budgets"))
    for line in model_lines(document):
        out.print(Text(line))
    for family in listed(document, "families"):
        _family(out, family)
    trials = list(listed(document, "trials"))
    if trials:
        out.print(trials_table(trials))


def listed(document: Mapping[str, Json], key: str) -> Iterator[Mapping[str, Json]]:
    """The mappings in a list of the document; none where there is no such list."""
    found = document.get(key)
    if isinstance(found, Sequence) and not isinstance(found, str):
        yield from (item for item in found if isinstance(item, Mapping))


def _standing(out: Console, document: Mapping[str, Json]) -> None:
    timings = document.get("timings")
    times = timings if isinstance(timings, Mapping) else {}
    facts = [
        ("submitted", str(times.get("submitted_at") or "-")),
        ("ended", str(times.get("ended_at") or "-")),
        ("leader", str(document.get("leader") or "-")),
        ("worker", str(document.get("worker") or "none")),
        ("evaluator", str(document.get("bundle") or "")[:16] or "reported by the program itself"),
    ]
    facts += [
        (
            f"incumbent {incumbent['seq']}",
            f"{incumbent['candidate']} of {incumbent['model']}, {incumbent['at']}, "
            f"by {incumbent['approver']}",
        )
        for incumbent in list(listed(document, "incumbents"))[:3]
    ]
    facts += list(share_facts(document))
    for revision in listed(document, "revisions"):
        who = f"{revision['at']}, by {revision['actor']}"
        facts.append(("changed", f"{_changes(revision)}, {who}"))
    for command in listed(document, "pending_commands"):
        facts.append(("asked", f"{command['verb']} by {command['actor']}, not yet done"))
    for name, value in facts:
        out.print(Text(f"  {name}: {plain(value)}", style="dim"))


def _changes(revision: Mapping[str, Json]) -> str:
    """`budget.trials 20 to 40; parallel 1 to 4`."""
    return "; ".join(
        f"{change['field']} {_cell(change['before'])} to {_cell(change['after'])}"
        for change in listed(revision, "changes")
    )


def _budgets(out: Console, budgets: Json) -> None:
    if not isinstance(budgets, Mapping):
        return
    rows = []
    for resource, line in budgets.items():
        if not isinstance(line, Mapping):
            continue
        name, per = _UNITS.get(resource, (resource, 1.0))
        cells = [line.get(key) for key in ("spent", "reserved", "limit", "overrun")]
        rows.append((name, *(_amount(cell, per) for cell in cells)))
    if rows:
        out.print(table("budget", ">spent", ">reserved", ">limit", ">over", rows=rows))


def _amount(cell: Json, per: float) -> str:
    return f"{cell / per:.4g}" if isinstance(cell, int | float) else "-"


def _family(out: Console, family: Mapping[str, Json]) -> None:
    reason = f" ({family['reason']})" if family.get("reason") else ""
    out.print(Text(f"family {family['number']}: {family['state']}{reason}", style="bold"))
    for line in _evidence(family):
        out.print(Text(f"  {clipped(line, 400)}"))


def _evidence(family: Mapping[str, Json]) -> Iterator[str]:
    evidence, profile = _mapping(family, "evidence"), _mapping(family, "profile")
    candidates, pool = family.get("candidates"), family.get("pool")
    names = ", ".join(map(str, candidates)) if isinstance(candidates, Sequence) else ""
    runs = len(pool) if isinstance(pool, Sequence) else 0
    yield f"candidates {names} against {family.get('incumbent')}"
    yield f"profile {profile.get('name')}, alpha {profile.get('alpha')}, pool {runs}"
    if "stage1_mean" in evidence:
        yield (
            f"stage 1: best {evidence.get('best')}, mean {_cell(evidence['stage1_mean'])} "
            f"against the bar {_cell(evidence.get('bar'))}"
        )
    if "p" in evidence:
        yield f"stage 2: p = {_cell(evidence['p'])} (pass at {_cell(evidence['alpha'])})"
    interval = evidence.get("ci95")
    if isinstance(interval, Sequence) and not isinstance(interval, str):
        low, high = (_cell(end) for end in interval)
        yield f"gain {_cell(evidence.get('gain'))}, 95 % interval {low} to {high}"


def _mapping(document: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}


def _cell(value: Json) -> str:
    return number(value) if _is_number(value) else str(value)


def _is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def trials_table(trials: Sequence[Mapping[str, Json]]) -> Table:
    """Rows of a list of trials."""
    rows = [
        (
            str(trial["number"]),
            f"{trial['kind']} {trial['stage']}" if trial.get("stage") else str(trial["kind"]),
            str(trial["outcome"]),
            str(trial.get("reason") or ""),
            number(optional_number(trial.get("value"))),
            duration(optional_number(trial.get("wall_s"))),
            params(_mapping(trial, "params"), 70),
        )
        for trial in trials
    ]
    columns = (">trial", "kind", "outcome", "reason", ">value", ">took", "parameters")
    return table(*columns, rows=rows)


def optional_number(value: Json) -> float | None:
    """The number; None for what is none."""
    return float(value) if _is_number(value) else None
