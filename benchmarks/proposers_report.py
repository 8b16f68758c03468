"""The tables of the proposers' benchmark, as Markdown."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from benchmarks.proposers_figures import (
    AgainstArms,
    Cell,
    Interval,
    against_arms,
    mean_ranks,
    median_ratio,
    win_rate,
    wins,
)

Key: TypeAlias = tuple[str, str, int]
PAIRS: Final = ("sobol", "tpe", "cmaes", "nsga2")
LEARNED: Final = "autoresearch-rl learned"
NO_RANK: Final = frozenset({"gp", "Optuna gp", LEARNED})
"""Run on few problems, or only one trial at a time."""
PAR: Final = 1.1
"""Median ratios up to this are called on par."""
BEHIND: Final = 0.05


def report(cells: Sequence[Cell], *, took_s: float, jobs: int) -> str:
    by_key = {(c.problem, c.method, c.batch): c for c in cells}
    ranked = [c for c in cells if c.method not in NO_RANK]
    last = max((c.marks[-1] for c in ranked or cells), default=0)
    head = f"{len(cells)} cells in {took_s:.0f} s with {jobs} processes."
    parts = [head]
    for batch in sorted({c.batch for c in cells}):
        parts += overall(by_key, batch, last)
    parts += by_problem(by_key, last)
    parts += beside_optuna(by_key, last)
    parts += beside_arms(by_key, last)
    parts += beside_random(by_key, last, "ppo")
    parts += beside_random(by_key, last, LEARNED)
    parts += gp(by_key)
    return "\n".join(parts)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def methods_of(by_key: dict[Key, Cell], batch: int) -> list[str]:
    return list(dict.fromkeys(m for _, m, b in by_key if b == batch))


def problems_of(by_key: dict[Key, Cell], batch: int, methods: Iterable[str]) -> list[str]:
    """Those that all of the methods ran on."""
    names = dict.fromkeys(p for p, _, b in by_key if b == batch)
    wanted = list(methods)
    return [p for p in names if all((p, m, batch) in by_key for m in wanted)]


def overall(by_key: dict[Key, Cell], batch: int, last: int) -> list[str]:
    ran = Counter(m for _, m, b in by_key if b == batch and m not in NO_RANK)
    most = max(ran.values(), default=0)
    # One that ran on few problems would leave few on which all can be compared.
    methods = [m for m in methods_of(by_key, batch) if 2 * ran[m] >= most and ran[m]]
    problems = problems_of(by_key, batch, methods)
    if not methods or not problems:
        return []
    marks = [m for m in by_key[problems[0], methods[0], batch].marks if m <= last]
    ranked = {
        mark: mean_ranks({m: [by_key[p, m, batch].at(mark) for p in problems] for m in methods})
        for mark in marks
    }
    rows = []
    for method in sorted(methods, key=lambda m: ranked[marks[-1]][m]):
        cells = [by_key[p, method, batch] for p in problems]
        regrets = [
            statistics.fmean(statistics.median(cell.at(mark)) for cell in cells) for mark in marks
        ]
        ms = statistics.fmean(cell.ms_per_proposal for cell in cells)
        rows.append(
            [
                method,
                *(f"{ranked[mark][method]:.2f}" for mark in marks),
                *(f"{regret:.4f}" for regret in regrets),
                f"{ms:.1f}",
            ]
        )
    heads = ["method", *(f"rank at {m}" for m in marks), *(f"regret at {m}" for m in marks)]
    title = "one at a time" if batch == 1 else f"{batch} at once"
    return [
        "",
        f"## All methods, {title}",
        "",
        f"Mean rank of {len(methods)}; mean over {len(problems)} problems of the median regret.",
        "",
        *table([*heads, "ms a proposal"], rows),
    ]


def by_problem(by_key: dict[Key, Cell], last: int) -> list[str]:
    methods = [m for m in methods_of(by_key, 1) if m not in ("gp", "Optuna gp")]
    rows = []
    for problem in dict.fromkeys(p for p, _, _ in by_key):
        found = [by_key.get((problem, m, 1)) for m in methods]
        values = [None if c is None else statistics.median(c.at(last)) for c in found]
        best = min((v for v in values if v is not None), default=0.0)
        rows.append(
            [
                problem,
                *(
                    "-" if v is None else f"**{v:.4f}**" if v == best else f"{v:.4f}"
                    for v in values
                ),
            ]
        )
    title = f"## Median regret after {last} trials, one at a time"
    return [title, "", *table(["problem", *methods], rows)]


def shown(interval: Interval) -> str:
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def beside_optuna(by_key: dict[Key, Cell], last: int) -> list[str]:
    rows = []
    for name in PAIRS:
        for batch in sorted({b for _, _, b in by_key}):
            problems = problems_of(by_key, batch, (name, f"Optuna {name}"))
            if not problems:
                continue
            ours = [by_key[p, name, batch].at(last) for p in problems]
            theirs = [by_key[p, f"Optuna {name}", batch].at(last) for p in problems]
            ratio = median_ratio(ours, theirs)
            won = sum(wins(a, b) for a, b in zip(ours, theirs, strict=True))
            rate = win_rate(won, sum(len(a) for a in ours))
            verdict = "on par or better" if ratio.value <= PAR else "WORSE"
            rows.append([name, str(batch), shown(ratio), shown(rate), verdict])
    heads = ["sampler", "at once", "median ratio of regrets", "wins", ""]
    note = "Ours over Optuna's own, seed by seed: below 1 ours is better. 95 % intervals."
    return ["## Our samplers beside Optuna's own", "", note, "", *table(heads, rows)]


def beside_arms(by_key: dict[Key, Cell], last: int) -> list[str]:
    """One line for each hybrid, and one for each problem on which the better arm changes."""
    rows, switching = [], []
    for batch in sorted({b for _, _, b in by_key}):
        for method in (m for m in methods_of(by_key, batch) if m.startswith("hybrid ")):
            names = method.removeprefix("hybrid ").split("+")
            found = []
            for problem in problems_of(by_key, batch, (method, *names)):
                cell = by_key[problem, method, batch]
                arms = {name: by_key[problem, name, batch].at(last) for name in names}
                one = against_arms(problem, cell.at(last), arms)
                found.append(one)
                if cell.kind == "switching":
                    cells = [by_key[problem, name, batch] for name in (method, *names)]
                    switching.append(
                        [method, str(batch), problem, *_one(one), *_on_the_way(cells)]
                    )
            if found:
                rows.append([method, str(batch), *_counted(found)])
    if not rows:
        return []
    heads = ["hybrid", "at once", "problems", "ahead", "within 5 %", "behind by more (%)"]
    one_heads = ["hybrid", "at once", "problem", "regret", "better arm", "behind, %"]
    one_heads.append("it and its arms after " + ", ".join(map(str, _marks(by_key, last))))
    note = (
        "How much more regret it is left with than the better of its arms alone (mean over"
        " seeds), in per cent of the way from the best to a usual point."
    )
    title = ["## Hybrid beside the better of its arms alone", "", note, ""]
    changes = ["Where the better arm changes on the way:", "", *table(one_heads, switching)]
    return [*title, *table(heads, rows), *(changes if switching else [])]


def _counted(found: Sequence[AgainstArms]) -> list[str]:
    ahead = [one for one in found if one.behind.value < 0]
    behind = [one for one in found if one.behind.value > BEHIND]
    worst = sorted(behind, key=lambda one: -one.behind.value)
    named = ", ".join(f"{one.problem} {100 * one.behind.value:.0f}" for one in worst)
    within = len(found) - len(ahead) - len(behind)
    return [str(len(found)), str(len(ahead)), str(within), named or "none"]


def _one(one: AgainstArms) -> list[str]:
    low, high = 100 * one.behind.low, 100 * one.behind.high
    behind = f"{100 * one.behind.value:+.1f} ({low:+.1f} to {high:+.1f})"
    return [f"{one.hybrid:.3f}", f"{one.better} {one.better_regret:.3f}", behind]


def _marks(by_key: dict[Key, Cell], last: int) -> list[int]:
    marks = {mark for cell in by_key.values() for mark in cell.marks if mark <= last}
    return sorted(marks)


def _on_the_way(cells: Sequence[Cell]) -> list[str]:
    """Mean regrets at each mark: of the hybrid, and in brackets of its arms alone."""
    texts = []
    for mark in cells[0].marks:
        own, *arms = (f"{statistics.fmean(cell.at(mark)):.2f}" for cell in cells)
        texts.append(f"{own} ({', '.join(arms)})")
    return ["; ".join(texts)]


def beside_random(by_key: dict[Key, Cell], last: int, method: str) -> list[str]:
    rows = []
    for batch in sorted({b for _, _, b in by_key}):
        total, count = 0.0, 0
        for problem in problems_of(by_key, batch, (method, "random")):
            cell, other = by_key[problem, method, batch], by_key[problem, "random", batch]
            won = wins(cell.at(last), other.at(last))
            total, count = total + won, count + len(cell.regrets)
            medians = [statistics.median(c.at(last)) for c in (cell, other)]
            rate = win_rate(won, len(cell.regrets))
            shown_medians = [f"{median:.4f}" for median in medians]
            rows.append([problem, str(batch), *shown_medians, shown(rate), _verdict(rate)])
        if count:
            rate = win_rate(total, count)
            rows.append(["**all**", str(batch), "", "", shown(rate), _verdict(rate)])
    if not rows:
        return [f"## {method} beside random", "", "It was not run.", ""]
    heads = ["problem", "at once", "median regret", "random's", "wins over random", ""]
    return [f"## {method} beside random", "", *table(heads, rows)]


def _verdict(rate: Interval) -> str:
    return "ahead" if rate.low > 0.5 else "BEHIND" if rate.high < 0.5 else "open"


def gp(by_key: dict[Key, Cell]) -> list[str]:
    rows = []
    for problem, method, batch in by_key:
        if method != "gp" or (problem, "Optuna gp", batch) not in by_key:
            continue
        ours, theirs = by_key[problem, "gp", batch], by_key[problem, "Optuna gp", batch]
        for mark in ours.marks:
            rows.append(
                [
                    problem,
                    str(mark),
                    f"{statistics.median(ours.at(mark)):.4f}",
                    f"{statistics.median(theirs.at(mark)):.4f}",
                    f"{ours.ms_per_proposal:.0f} / {theirs.ms_per_proposal:.0f}",
                ]
            )
    if not rows:
        return []
    heads = ["problem", "trials", "gp", "Optuna gp", "ms a proposal"]
    return ["## Gaussian process, few searches", "", *table(heads, rows)]
