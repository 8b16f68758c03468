"""What a study has found so far, as a language model is told of it: each trial with its why."""

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ledger.records import Direction
from ledger.search import FinishedTrial, History
from ledger.states import Reason, TrialState
from proposers.prompt_data import one_line
from proposers.prompt_space import params_text

BEST: Final = 5
RECENT: Final = 30
DEAD_ENDS: Final = 15
PENDING: Final = 30
_DETAIL: Final = 200
_RATIONALE: Final = 160

_WHY: Final[Mapping[Reason, str]] = {
    Reason.BETTER: "better than the best before by more than the noise",
    Reason.TIE: "no different from the best before: within the noise",
    Reason.WORSE: "worse than the best before",
    Reason.INFEASIBLE: "it breaks a constraint, whatever its score",
    Reason.DUPLICATE: "the same candidate as an earlier one; nothing was run",
    Reason.NOT_FINITE: "its score is no finite number",
    Reason.PRUNED_MEDIAN: "ended early: at the same step it was behind most others",
    Reason.PRUNED_FORECAST: "ended early: its curve was not going to reach the best",
    Reason.EXIT_NONZERO: "the program ended with an error",
    Reason.CRASHED: "the program crashed",
    Reason.TIMED_OUT: "it took longer than a trial may",
    Reason.STALLED: "it stopped reporting anything",
    Reason.OUT_OF_MEMORY: "it needed more memory than a trial has",
    Reason.TOO_MANY_PROCESSES: "it started more processes than a trial may",
    Reason.TOO_MUCH_DATA: "it wrote more than a trial may",
    Reason.OUTPUT_REFUSED: "what it left behind was no acceptable model",
    Reason.NO_MODEL: "it left no model behind",
    Reason.NO_METRIC: "it gave no score",
    Reason.INVALID_PLAN: "the parameters make no plan that can be run",
    Reason.MALFORMED_PATCH: "the patch could not be applied",
    Reason.NO_CHANGE: "the patch changed nothing",
    Reason.EVALUATOR_ERROR: "the evaluator failed; it says nothing of the candidate",
}


def why(trial: FinishedTrial) -> str:
    """One phrase for how a trial ended."""
    return _WHY.get(trial.reason, str(trial.reason).replace("_", " "))


def number_text(value: float, noise: float = 0.0) -> str:
    """Not more digits than the noise leaves."""
    if not math.isfinite(value):
        return str(value)
    if noise > 0 and math.isfinite(noise):
        digits = max(0, 1 - math.floor(math.log10(noise)))
        if digits <= 12:
            return f"{value:.{digits}f}"
    return f"{value:.6g}"


def standing_text(history: History) -> str:
    """The objective and how the study stands: facts of ARL's own, nothing that others wrote."""
    noise = history.noise_floor
    lines = [
        f"Objective: {history.objective.direction} {one_line(history.objective.metric, 100)}."
    ]
    low, high = history.metric_ranges.get(history.objective.metric, (None, None))
    if low is not None or high is not None:
        lines.append(f"It is {_bounds(low, high)}.")
    for limit in history.constraints:
        lines.append(
            f"Constraint: {one_line(limit.metric, 100)} is {_bounds(limit.low, limit.high)}; what "
            "breaks it is never kept."
        )
    if noise > 0:
        lines.append(f"Noise: differences below {number_text(noise)} mean nothing.")
    mean = history.baseline_value
    if mean is not None:
        lines.append(f"Baseline, the mean of {len(history.baseline)}: {number_text(mean, noise)}.")
    best = "none yet" if history.best is None else number_text(history.best, noise)
    lines.append(f"Best so far: {best}.")
    lines.append(f"Trials finished: {len(history.finished)}; running: {len(history.pending)}.")
    if history.trials_left is not None:
        lines.append(f"Trials left: {history.trials_left}.")
    return "\n".join(lines)


def _bounds(low: float | None, high: float | None) -> str:
    ends = (("at least", low), ("at most", high))
    return " and ".join(f"{word} {end:g}" for word, end in ends if end is not None) or "anything"


def best_trials(history: History) -> list[FinishedTrial]:
    """The best ones by score, the best first; equal ones in the order of their numbers."""
    sign = 1.0 if history.objective.direction is Direction.MAXIMIZE else -1.0
    scored = [
        (sign * trial.value, -trial.number, trial)
        for trial in history.finished
        if trial.value is not None
        and trial.state is TrialState.COMPLETE
        and trial.reason not in (Reason.INFEASIBLE, Reason.DUPLICATE)
        and math.isfinite(trial.value)
    ]
    return [found[2] for found in heapq.nlargest(BEST, scored, key=lambda s: s[:2])]


def recent_trials(history: History) -> list[FinishedTrial]:
    """The latest ones, the oldest first."""
    return list(history.finished[-RECENT:])


def dead_ends(history: History) -> list[FinishedTrial]:
    """The latest that failed by their own doing, the oldest first."""
    failed = (
        trial
        for trial in reversed(history.finished)
        if trial.state is TrialState.FAILED and trial.detail
    )
    return [trial for trial, _ in zip(failed, range(DEAD_ENDS), strict=False)][::-1]


def lines_of(trials: Iterable[FinishedTrial], history: History) -> list[str]:
    """One line for each trial."""
    numbers = {trial.candidate_id: trial.number for trial in history.finished}
    return [_line(trial, history.noise_floor, numbers) for trial in trials]


def _line(trial: FinishedTrial, noise: float, numbers: Mapping[str, int]) -> str:
    """Details, rationales and parameters are cut."""
    value = "no score" if trial.value is None else number_text(trial.value, noise)
    verdict = "kept" if trial.kept else str(trial.state)
    parts = [f"#{trial.number} {value} ({verdict}: {why(trial)})"]
    if trial.params:
        parts.append(params_text(trial.params))
    if trial.parent_id is not None and trial.parent_id in numbers:
        parts.append(f"made from #{numbers[trial.parent_id]}")
    if trial.rationale:
        parts.append(f"idea: {one_line(trial.rationale, _RATIONALE)}")
    if trial.detail:
        parts.append(f"said: {one_line(trial.detail, _DETAIL)}")
    return one_line(" | ".join(parts), 1500)


def fitted(lines: Sequence[str], room: float, size: Callable[[str], float]) -> list[str]:
    """As many of the last lines as there is room for, in their order."""
    kept: list[str] = []
    for line in reversed(lines):
        room -= size(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]
