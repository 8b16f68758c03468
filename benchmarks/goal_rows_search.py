"""What the benchmarks of searching, pruning, deciding and training say of their goals."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from benchmarks.goal_row import Report, Row
from benchmarks.proposers_figures import (
    Cell,
    against_arms,
    mean_ranks,
    median_ratio,
    win_rate,
    wins,
)

PAIRS: Final = ("sobol", "tpe", "cmaes", "nsga2")
PAR: Final = 1.1
"""A median ratio of regrets up to this is on par."""
BEHIND: Final = 0.05


class Searches:
    """The regrets of one run, one trial at a time, after its last trial."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._by_key = {(c.problem, c.method): c for c in cells if c.batch == 1}
        self.last = max(c.marks[-1] for c in self._by_key.values() if c.method == "random")
        self.hybrids = [
            method
            for method in dict.fromkeys(m for _, m in self._by_key)
            if method.startswith("hybrid ")
        ]

    def of(self, *methods: str) -> list[tuple[list[float], ...]]:
        """Regrets by seed of each method, for each problem that all of them ran on."""
        names = dict.fromkeys(problem for problem, _ in self._by_key)
        kept = [p for p in names if all((p, m) in self._by_key for m in methods)]
        return [tuple(self._by_key[p, m].at(self.last) for m in methods) for p in kept]


def proposers(report: Report) -> list[Row]:
    searches = Searches([Cell(**cell) for cell in report["cells"]])
    return [*_beside_optuna(searches), *_learned(searches), *_hybrids(searches)]


def _beside_optuna(searches: Searches) -> Iterator[Row]:
    for name in PAIRS:
        found = searches.of(name, f"Optuna {name}")
        if not found:
            continue
        ratio = median_ratio([ours for ours, _ in found], [theirs for _, theirs in found])
        yield Row(
            what=f"`{name}` over Optuna's own, regret after {searches.last}, "
            f"{len(found)} problems",
            goal=f"at most {PAR:g}",
            measured=f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})",
            is_met=ratio.value <= PAR,
        )


def _learned(searches: Searches) -> Iterator[Row]:
    found = searches.of("ppo", "random")
    if found:
        won = win_rate(sum(wins(a, b) for a, b in found), sum(len(a) for a, _ in found))
        ranked = mean_ranks({"ppo": [a for a, _ in found], "random": [b for _, b in found]})
        yield Row(
            what=f"`ppo` wins over random, {len(found)} problems",
            goal="clearly more than half",
            measured=f"{won.value:.2f} ({won.low:.2f} to {won.high:.2f}), mean rank "
            f"{ranked['ppo']:.2f} and {ranked['random']:.2f}",
            is_met=won.low > 0.5,
        )


def _hybrids(searches: Searches) -> Iterator[Row]:
    for method in searches.hybrids:
        arms = method.removeprefix("hybrid ").split("+")
        behind = [
            against_arms("", own, dict(zip(arms, others, strict=True))).behind.value
            for own, *others in searches.of(method, *arms)
        ]
        worse = sum(value > BEHIND for value in behind)
        if behind:
            yield Row(
                what=f"`{method}` behind the better of its arms, {len(behind)} problems",
                goal="within 5 % everywhere",
                measured=f"{worse} by more, the worst {100 * max(behind):.0f} %",
                is_met=worse == 0,
            )


def pruning(report: Report) -> list[Row]:
    rows = []
    for family in dict.fromkeys(row["family"] for row in report):
        found = {row["pruner"]: row for row in report if row["family"] == family}
        own = found.get("power_law")
        if own is None:
            continue
        peers = {n: r for n, r in found.items() if n.startswith(("Optuna", "autoresearch"))}
        rows.append(
            Row(
                what=f"pruner `power_law`, {family} curves, {own['studies']} studies",
                goal="saves .50, loses .02 of winners",
                measured=f"saves {own['saved']:.2f}, loses {own['winners_lost']:.2f} "
                f"({own['lost_beyond_noise']:.2f} beyond noise)",
                peers=", ".join(
                    f"{n} {r['saved']:.2f} and {r['winners_lost']:.2f}" for n, r in peers.items()
                ),
                is_met=own["saved"] >= 0.5 and own["winners_lost"] <= 0.02,
            )
        )
    return rows


def decisions(report: Report) -> list[Row]:
    rows = []
    for name in dict.fromkeys(row["profile"] for row in report["rows"]):
        # alpha .05 is a profile's own; others are those of a study's first and second family.
        found = [r for r in report["rows"] if r["profile"] == name and r["alpha"] == 0.05]
        if not found:
            continue
        false, power = (
            _worst(found, "final_false", max),
            _worst(
                (r for r in found if r["effect_sd"] == 2.0 and r["noise"] == "normal"),
                "final_power",
                min,
            ),
        )
        rows.append(
            Row(
                what=f"gate `{name}`: false promotions, worst of {len(found)} rows",
                goal="at most .04",
                measured=f"{false['final_false']:.3f} ({false['noise']}, "
                f"{false['final_false_low']:.3f} to {false['final_false_high']:.3f})",
                peers=f"keep if better {_worst(found, 'greedy_false', max)['greedy_false']:.2f}",
                is_met=false["final_false"] <= 0.04,
            )
        )
        rows.append(
            Row(
                what=f"gate `{name}`: power at + 2 sd, normal noise",
                goal="at least .90",
                measured=f"{power['final_power']:.2f}; the gain's coverage "
                f"{power['coverage']:.2f}, its bias {power['bias']:+.2f} sd",
                is_met=power["final_power"] >= 0.9,
            )
        )
    return rows


def _worst(rows: Iterable[Report], key: str, choose: Callable[..., Report]) -> Report:
    return choose(rows, key=lambda row: row[key])


def programs(report: Report) -> list[Row]:
    return [
        Row(
            what=f"training program `{row['program']}` beside a plain TRL script",
            goal="at most 1.05, same metrics",
            measured=f"{row['wall_ratio_of_pairs']:.3f}, "
            + ("the same metrics" if row["learns_the_same"] else "OTHER METRICS"),
            is_met=row["is_fast_enough"] and row["learns_the_same"],
        )
        for row in report["rows"]
    ]
