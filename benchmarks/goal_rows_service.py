"""What the benchmarks of the service say of their goals: asking, lists, plots, and growth."""

from collections.abc import Sequence

from benchmarks.goal_row import Report, Row, listed


def asking(report: Report) -> list[Row]:
    own, http = report["in_process"], report["http"]
    errors = sum(sum(run["errors"].values()) for run in http)
    crowd = http[-1]
    return [
        Row(
            what="asked and told trials a second, in process",
            goal="at least 300",
            measured=f"{own['per_s']:.0f}",
            peers=listed(report["peers"], "/s", ".0f"),
            is_met=own["per_s"] >= 300.0,
        ),
        Row(
            what=f"over HTTP, {' / '.join(str(run['clients']) for run in http)} clients",
            goal="at least 150",
            measured=" / ".join(f"{run['per_s']:.0f}" for run in http),
            is_met=min(run["per_s"] for run in http) >= 150.0,
        ),
        Row(
            what=f"errors of {crowd['clients']} clients",
            goal="none",
            measured=f"{errors}; {crowd['told']} told, {crowd['counted_by_the_ledger']} recorded",
            is_met=errors == 0 and crowd["told"] == crowd["counted_by_the_ledger"],
        ),
    ]


def service(report: Report) -> list[Row]:
    small = report["small"]
    pages = [one for one in small["reads"] if one["goal_ms"] <= 50.0]
    plots = [one for one in small["reads"] if one["goal_ms"] > 50.0]
    rows = [
        _slowest("lists and pages", pages, small["trials"], "50 ms (polls 20)"),
        _slowest("plots", plots, small["trials"], "300 ms"),
    ]
    largest = max(plots, key=lambda one: one["bytes"])
    rows.append(
        Row(
            what="the largest plot",
            goal="at most 300 kB",
            measured=f"{largest['name']} {largest['bytes'] / 1000:.0f} kB",
            is_met=largest["bytes"] <= 300_000,
        )
    )
    told = [
        f"{label}: " + ", ".join(_of_peer(read) for read in found["reads"])
        for label, found in report.get("peers", {}).items()
    ]
    if told:
        first = next(one for one in pages if one["name"] == "trials, first page")
        measured = f"{first['first_ms']:.0f} then {first['server_ms']:.0f} ms"
        rows.append(
            Row(
                what="first page of trials, and what the others need for theirs",
                goal="at most 50 ms",
                measured=measured,
                peers="; ".join(told),
                is_met=max(first["first_ms"], first["server_ms"]) <= 50.0,
            )
        )
    return rows


def _slowest(what: str, found: Sequence[Report], trials: int, goal: str) -> Row:
    over = [one for one in found if max(one["first_ms"], one["server_ms"]) > one["goal_ms"]]
    slow = max(found, key=lambda one: one["first_ms"])
    told = f"{len(found) - len(over)} of {len(found)} within; slowest first answer {slow['name']}"
    return Row(
        what=f"{what}, {trials:,} trials, first and later answers of a server",
        goal=goal,
        measured=f"{told} {slow['first_ms']:.0f} ms",
        is_met=not over,
    )


def _of_peer(read: Report) -> str:
    if "failed" in read:
        return f"{read['name']} failed after {read['after_s']:.0f} s"
    return f"{read['name']} {read['first_ms']:.0f} then {read['wall_ms']:.0f} ms"


def scale(report: Report) -> list[Row]:
    rows = []
    for one in report["trials"]:
        is_large = one["trials"] > 20_000
        pages_ms = 100.0 if is_large else 50.0  # the same shape: at most twice that
        plots = [read for read in one["reads"] if _is_plot(read["name"])]
        pages = [read for read in one["reads"] if not _is_plot(read["name"])]
        resume = one["resume"]
        rows += [
            _costliest("lists and pages", pages, one["trials"], pages_ms),
            _costliest("plots", plots, one["trials"], 6 * pages_ms),
            Row(
                what=f"first action of `arl resume`, {one['trials']:,} trials",
                goal="" if is_large else "2 s, 250 MB",
                measured=f"{resume['first_action_s']:.1f} s, {resume['first_action_mb']:.0f} MB",
                is_met=None
                if is_large
                else resume["first_action_s"] <= 2.0 and resume["first_action_mb"] <= 250.0,
            ),
        ]
    return rows


def _is_plot(name: str) -> bool:
    """The proposer's page has the goal of a plot, as in the benchmark of the service."""
    return name.startswith("plot ") or name == "proposer"


def _costliest(what: str, found: Sequence[Report], trials: int, limit_ms: float) -> Row:
    slow = max(found, key=lambda read: read["started"]["cpu_ms"])
    return Row(
        what=f"{what}, {trials:,} trials, after a start, processor time",
        goal=f"{limit_ms:.0f} ms",
        measured=f"slowest {slow['name']} {slow['started']['cpu_ms']:.0f} ms",
        is_met=slow["started"]["cpu_ms"] <= limit_ms,
    )
