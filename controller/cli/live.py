"""The live panel of `arl run` on a terminal."""

import time
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from controller.cli.progress import Best, Facts, RunningTrial, Watch
from controller.cli.text import clipped, duration, number, params, plain
from controller.worker.driver import StudyDriver
from ledger.records import BudgetLine, Resource
from ledger.states import StudyState

REFRESH_S: Final = 0.25
_BAR: Final = 32
_STYLES: Final = {
    StudyState.RUNNING: "green",
    StudyState.REPLAYING: "cyan",
    StudyState.COMPLETED: "bold green",
    StudyState.PAUSED: "yellow",
    StudyState.FAILED: "bold red",
    StudyState.CANCELLED: "red",
}


class LivePanel:
    """Draws the studies a worker drives, at most four times a second."""

    def __init__(self, console: Console, watches: dict[str, Watch]) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._watches = watches
        self._facts: dict[str, Facts] = {}
        self._drawn_at = 0.0

    def __enter__(self) -> "LivePanel":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_tick(self, driver: StudyDriver) -> None:
        now = time.monotonic()
        if now - self._drawn_at < REFRESH_S and driver.study_id in self._facts:
            return
        self._drawn_at = now
        watch = self._watches.setdefault(driver.study_id, Watch())
        self._facts[driver.study_id] = watch.read(driver.snapshot())
        self._live.update(panel(list(self._facts.values())), refresh=True)


def panel(facts: list[Facts]) -> RenderableType:
    """One block for each study."""
    return Group(*(_block(study) for study in facts))


def _block(facts: Facts) -> RenderableType:
    parts: list[RenderableType] = [_headline(facts), _bars(facts), _best_line(facts)]
    if facts.running:
        parts.append(_running_table(facts))
    return Group(*parts, Text())


def _headline(facts: Facts) -> Text:
    line = Text()
    line.append(plain(facts.name), style="bold")
    line.append(f"  {facts.study_id}  ", style="dim")
    line.append(str(facts.state), style=_STYLES.get(facts.state, "blue"))
    if facts.why:
        line.append(f"  {clipped(facts.why, 90)}", style="dim")
    return line


def _bars(facts: Facts) -> Table:
    grid = Table.grid(padding=(0, 2))
    if facts.baselines_done < facts.baselines_wanted:
        _bar(grid, "baselines", facts.baselines_done, facts.baselines_wanted, "")
    counts = ", ".join(f"{count} {name}" for name, count in sorted(facts.outcomes.items()))
    _bar(grid, "trials", facts.search_done, facts.search_limit, counts)
    if facts.gate is not None:
        _bar(grid, f"gate: {facts.gate.stage}", facts.gate.done, facts.gate.needed, "replays")
    for line in facts.budgets:
        _bar(grid, label(line.resource), *shown_budget(line))
    if facts.left_s is not None and facts.state is not StudyState.PAUSED:
        grid.add_row(Text("time left"), Text(""), Text(f"about {time_left(facts.left_s)}"))
    return grid


def _bar(grid: Table, name: str, done: float, limit: float | None, note: str) -> None:
    amount = f"{done:g}" if limit is None else f"{done:g}/{limit:g}"
    bar: RenderableType = Text("")
    if limit:
        bar = ProgressBar(total=limit, completed=min(done, limit), width=_BAR)
    grid.add_row(Text(name), bar, Text(f"{amount}  {note}".rstrip()))


def label(resource: Resource) -> str:
    """A budget's name and unit for people."""
    return {
        Resource.TRIALS: "trials",
        Resource.WALL_S: "wall time (min)",
        Resource.GPU_S: "GPU hours",
        Resource.LLM_TOKENS: "model tokens",
        Resource.LLM_COST_USD: "model cost ($)",
    }[resource]


def shown_budget(line: BudgetLine) -> tuple[float, float | None, str]:
    """Used and limit in the unit of `label`, and what is reserved on top."""
    per = {Resource.WALL_S: 60.0, Resource.GPU_S: 3600.0}.get(line.resource, 1.0)
    note = f"{line.reserved / per:.3g} reserved" if line.reserved > 0 else ""
    limit = None if line.limit is None else round(line.limit / per, 2)
    return round(line.spent / per, 2), limit, note


def time_left(bounds: tuple[float, float]) -> str:
    least, most = bounds
    if most - least < max(5.0, 0.1 * most):
        return duration(most)
    return f"{duration(least)} to {duration(most)}"


def _best_line(facts: Facts) -> Text:
    line = Text("best  ")
    if facts.best is None:
        line.append("-")
    else:
        line.append(score_text(facts.metric, facts.best, facts.noise_floor), style="bold")
        line.append(f"  trial {facts.best.number}  {params(facts.best.params)}", style="dim")
    if facts.baseline_mean is not None:
        line.append(f"  baseline {number(facts.baseline_mean)}", style="dim")
    return line


def score_text(metric: str, best: Best, noise_floor: float) -> str:
    """`exact_match 0.512 ± 0.013`: the value and its noise band."""
    band = f" ± {number(noise_floor)}" if noise_floor > 0 else ""
    return f"{clipped(metric, 40)} {number(best.value)}{band}"


def _running_table(facts: Facts) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("running", "kind", "doing", "elapsed", "last reported"):
        table.add_column(column, style="dim" if column == "kind" else "")
    for trial in facts.running:
        kind = f"{trial.kind} {trial.stage}" if trial.stage else str(trial.kind)
        table.add_row(
            Text(f"trial {trial.number}"),
            Text(kind),
            Text(trial.doing),
            Text(duration(trial.elapsed_s)),
            Text(reported(trial)),
        )
    more = facts.running_total - len(facts.running)
    if more > 0:
        table.add_row(Text(f"and {more} more"))
    return table


def reported(trial: RunningTrial) -> str:
    """The newest value a trial told, with its step."""
    if trial.reported is None:
        return ""
    metric, step, value = trial.reported
    return f"{clipped(metric, 30)} {number(value)} at step {step}"
