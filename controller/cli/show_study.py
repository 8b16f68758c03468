"""`arl show STUDY` for people."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from controller.cli.endings import ending_lines
from controller.cli.model_calls import model_lines
from controller.cli.output import console, table
from controller.cli.text import clipped, duration, iso, number, params, plain
from controller.documents.trials import duration_of, outcome_word
from ledger.records import Family, Incumbent, Json, Study
from ledger.trial_pages import ListedTrial

_UNITS = {"wall_s": ("wall time (min)", 60.0), "gpu_s": ("GPU hours", 3600.0)}


def print_study(
    study: Study,
    document: Mapping[str, Json],
    families: Sequence[Family],
    incumbents: Sequence[Incumbent],
    latest: Sequence[ListedTrial],
) -> None:
    """Everything a person asks first: how it stands, what is best, what it cost, what the gate
    said, and the latest trials."""
    out = console()
    for line in ending_lines(document):
        out.print(Text(line, style="" if line.startswith(" ") else "bold"))
    _standing(out, study, document, incumbents)
    _budgets(out, document.get("budgets"))
    for line in model_lines(document):
        out.print(Text(line))
    for family in families:
        _family(out, family)
    if latest:
        _trials(out, latest)


def _standing(
    out: Console, study: Study, document: Mapping[str, Json], incumbents: Sequence[Incumbent]
) -> None:
    facts = [
        ("submitted", iso(study.created_at) or "-"),
        ("ended", iso(study.ended_at) or "-"),
        ("leader", str(document.get("leader") or "-")),
        ("worker", study.lease_owner or "none"),
        ("evaluator", study.bundle_digest[:16] or "reported by the program itself"),
    ]
    facts += [
        (
            f"incumbent {incumbent.seq}",
            f"{incumbent.candidate_id} of {incumbent.model}, {iso(incumbent.created_at)}, "
            f"by {incumbent.approver}",
        )
        for incumbent in incumbents[:3]
    ]
    pending = document.get("pending_commands")
    if isinstance(pending, Sequence) and not isinstance(pending, str):
        for command in pending:
            if isinstance(command, Mapping):
                facts.append(("asked", f"{command['verb']} by {command['actor']}, not yet done"))
    for name, value in facts:
        out.print(Text(f"  {name}: {plain(value)}", style="dim"))


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


def _family(out: Console, family: Family) -> None:
    reason = f" ({family.reason})" if family.reason is not None else ""
    out.print(Text(f"family {family.number}: {family.state}{reason}", style="bold"))
    evidence = family.evidence
    lines = [f"candidates {', '.join(family.candidates)} against {family.incumbent_id}"]
    alpha = family.profile.get("alpha")
    lines.append(f"profile {family.profile.get('name')}, alpha {alpha}, pool {len(family.pool)}")
    if "stage1_mean" in evidence:
        lines.append(
            f"stage 1: best {evidence.get('best')}, mean {_cell(evidence['stage1_mean'])} "
            f"against the bar {_cell(evidence.get('bar'))}"
        )
    if "p" in evidence:
        lines.append(f"stage 2: p = {_cell(evidence['p'])} (pass at {_cell(evidence['alpha'])})")
    interval = evidence.get("ci95")
    if isinstance(interval, Sequence) and not isinstance(interval, str):
        low, high = (_cell(end) for end in interval)
        lines.append(f"gain {_cell(evidence.get('gain'))}, 95 % interval {low} to {high}")
    for line in lines:
        out.print(Text(f"  {clipped(line, 400)}"))


def _cell(value: Json) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return str(value)


def _trials(out: Console, latest: Sequence[ListedTrial]) -> None:
    rows = [
        (
            str(item.trial.number),
            f"{item.trial.kind} {item.trial.stage}" if item.trial.stage else str(item.trial.kind),
            outcome_word(item.trial.state, item.trial.verdict),
            str(item.trial.reason or ""),
            number(item.trial.value),
            duration(duration_of(item.trial)),
            params(item.candidate.params, 70),
        )
        for item in latest
    ]
    columns = (">trial", "kind", "outcome", "reason", ">value", ">took", "parameters")
    out.print(table(*columns, rows=rows))
