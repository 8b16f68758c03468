"""What each benchmark's figures say of its goals: one row for each goal."""

import statistics
from collections.abc import Callable, Mapping
from typing import Final

from benchmarks import goal_rows_search as search
from benchmarks import goal_rows_service as served
from benchmarks.goal_row import Report, Row, listed


def noop(report: Report) -> list[Row]:
    found = report["results"]
    ours, others = found["ARL"], {k: v for k, v in found.items() if k != "ARL"}
    own, cost = ours["serial"]["own_median_ms"], ours["serial"]["median_ms"]
    serial = {
        name: figures["serial"]["own_median_ms"]
        for name, figures in others.items()
        if "own_median_ms" in figures.get("serial", {})
    }
    rows = [
        Row(
            what="ARL's own share of a no-op trial, serial, SQLite, every commit durable",
            goal="at most 8 ms",
            measured=f"{own:.1f} ms",
            peers=listed(serial, " ms"),
            is_met=own <= 8.0,
        )
    ]
    slow = [v["serial"]["median_ms"] for k, v in others.items() if k.startswith("autoresearch-rl")]
    if slow:
        rows.append(
            Row(
                what="the same, beside autoresearch-rl",
                goal="at most 1/50",
                measured=f"1/{slow[0] / cost:.0f}",
                is_met=cost * 50 <= slow[0],
            )
        )
    rates = {
        n: f[k]["per_s"] for n, f in others.items() for k in ("parallel16", "parallel8") if k in f
    }
    mine = [ours[key]["per_s"] for key in ("parallel8", "parallel16")]
    rows.append(
        Row(
            what="no-op trials a second, 8 and 16 at once",
            goal="at least 150",
            measured=" and ".join(f"{rate:.0f}" for rate in mine),
            peers=listed(rates, "/s"),
            is_met=min(mine) >= 150.0,
        )
    )
    if "growth" in ours:
        rows.append(_growth(ours["growth"], others))
    return rows


def _growth(ours: Report, others: Mapping[str, Report]) -> Row:
    grown = {name: f["growth"]["ratio"] for name, f in others.items() if "growth" in f}
    return Row(
        what=f"cost of a trial at N = {ours['trials']:,} over that at 100",
        goal="at most 1.2",
        measured=f"{ours['ratio']:.2f}",
        peers=listed(grown, "", ".2f"),
        is_met=ours["ratio"] <= 1.2,
    )


def values(report: Report) -> list[Row]:
    took = report["arl"]["wall_ms"]
    return [
        Row(
            what="1,000 reported values of one trial recorded, one durable commit",
            goal="at most 30 ms",
            measured=f"{took:.1f} ms",
            peers=f"MLflow 3.17 {report['mlflow_ms']:.0f} ms" if "mlflow_ms" in report else "",
            is_met=took <= 30.0,
        )
    ]


def starting(report: Report) -> list[Row]:
    ours, theirs = report["arl"], report.get("optuna")
    took_s, memory_mb = ours["first_action_s"], ours["first_action_mb"]
    read = (
        theirs and f"Optuna 5 reads them in {theirs['seconds']:.1f} s, {theirs['peak_mb']:.0f} MB"
    )
    return [
        Row(
            what=f"killed, started again, first new action; {report['trials']:,} trials",
            goal="at most 2 s and 250 MB",
            measured=f"{took_s:.2f} s, {memory_mb:.0f} MB",
            peers=read or "",
            is_met=took_s <= 2.0 and memory_mb <= 250.0,
        )
    ]


def workers(report: Report) -> list[Row]:
    def medians(kind: str) -> str:
        rates = {
            count: statistics.median(run["per_s"] for run in runs)
            for count, runs in report[kind].items()
        }
        return listed({f"{count}:": rate for count, rate in rates.items()}, "/s", ".0f")

    errors = sum(len(run["errors"]) for runs in report["asked"].values() for run in runs)
    taken = report["takeover_s"]
    late = [s for how, s in taken.items() if s > float(how.split()[-2]) + 1.0]
    return [
        Row(
            what="no-op trials a second by number of workers, PostgreSQL, eight studies",
            goal="",
            measured=medians("noop"),
        ),
        Row(
            what="asked and told by 32 clients, by number of workers",
            goal="no error",
            measured=f"{medians('asked')}; {errors} errors",
            is_met=errors == 0,
        ),
        Row(
            what="a study is taken over from a dead or stopped worker",
            goal="lease + 1 s",
            measured=listed(taken, " s", ".2f"),
            is_met=not late,
        ),
    ]


def containers(report: Report) -> list[Row]:
    rows = [
        Row(
            what=one["what"],
            goal=f"at {'most' if one['at_most'] else 'least'} {one['goal']:g}",
            measured=f"{one['measured']:.3g}",
            is_met=one["met"],
        )
        for one in report["goals"]
    ]
    why = report["not_measured"]
    return rows + [Row(what=n, goal="", measured=f"not measured: {p}") for n, p in why.items()]


def integrity(report: Report) -> list[Row]:
    limits = report["goals"]
    return [
        Row(
            what=f"a pair of {report['pair_s']:g} s under ARL over the pair by hand, {name}",
            goal=f"at most {limits[name]:g}" if name in limits else "told",
            measured=f"{report[name]['ratio']:.3f} (around the programs "
            f"{report[name]['outside_s'] - report['by hand']['outside_s']:.1f} s more)",
            is_met=report[name]["ratio"] <= limits[name] if name in limits else None,
        )
        for name in ("local", "bubblewrap", "docker")
        if name in report
    ]


def promotions(report: Report) -> list[Row]:
    one, many = report["one"], report["many"]
    took_s, checked_s = one["read_s"] + one["signed_s"], many["checked_s"]
    return [
        Row(
            what=f"promotion of {one['megabytes']} MB beyond its replays: lineage, signature",
            goal="at most 30 s",
            measured=f"{took_s:.1f} s",
            is_met=took_s <= 30.0,
        ),
        Row(
            what=f"checking {many['promotions']:,} promotions, entries and chains",
            goal="at most 10 s beside hashing",
            measured=f"{many['without_hashing_s']:.1f} s ({checked_s:.1f} with it)",
            is_met=many["without_hashing_s"] <= 10.0,
        ),
    ]


def ray(report: Report) -> list[Row]:
    return [
        Row(
            what=f"a pair on Ray, {name.replace('_', ' ')}",
            goal="",
            measured=f"{row['median_ms']:.0f} ms, "
            f"{row['times_plain_actors']:.2f} times plain actors",
        )
        for name, row in report["rows"].items()
    ]


ROWS: Final[Mapping[str, Callable[[Report], list[Row]]]] = {
    "noop": noop,
    "asking": served.asking,
    "values": values,
    "service": served.service,
    "scale": served.scale,
    "starting": starting,
    "workers": workers,
    "containers": containers,
    "integrity": integrity,
    "programs": search.programs,
    "proposers": search.proposers,
    "pruning": search.pruning,
    "decisions": search.decisions,
    "promotions": promotions,
    "ray": ray,
}
