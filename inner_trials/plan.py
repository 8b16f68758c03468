"""The architecture planner: what a post-training system is made of, and what cannot be right.

Pure, and of the standard library only: submit, proposals, `arl plan` and programs inside a trial
ask it before any compute is spent.
"""

from collections.abc import Iterator
from typing import Final

from inner_trials.planning.axes import (
    AXES,
    COUNTS,
    OPTIONAL_COUNTS,
    SWITCHES,
    VALUES,
    VERSIONS,
    Plan,
    PlanRefused,
    home_of,
    one_of,
)
from inner_trials.planning.precision import PRECISION_RULES, SYNC_RULES, WORD_RULES
from inner_trials.planning.refusals import first_refusals
from inner_trials.planning.signals import EXPERIENCE_RULES, SIGNAL_RULES, STAGE_RULES, Rule
from inner_trials.planning.topology import PLACEMENT_RULES, STALENESS_RULES, TRAINER_RULES

__all__ = ["AXES", "RULES", "Plan", "PlanRefused", "refusals", "rollout_gpu_floor", "validate"]

RULES: Final[tuple[Rule, ...]] = (
    *STAGE_RULES,
    *SIGNAL_RULES,
    *EXPERIENCE_RULES,
    *PRECISION_RULES,
    *SYNC_RULES,
    *TRAINER_RULES,
    *PLACEMENT_RULES,
    *STALENESS_RULES,
)
"""What is checked once every axis has a value of its own, in this order."""

MOST: Final = 1_000_000
"""No count of a plan is larger."""


def validate(plan: Plan) -> None:
    """Raises PlanRefused, a ValueError, with the first thing that cannot be right."""
    for refusal in refusals(plan):
        raise refusal


def refusals(plan: Plan) -> Iterator[PlanRefused]:
    """Everything that cannot be right, the first first; nothing for a valid plan.

    Rules between axes speak only once each axis has a value of its own.
    """
    found = False
    for check in (first_refusals, _strange_values):
        for refusal in check(plan):
            found = True
            yield refusal
        if found:
            return
    for rule in RULES:
        if rule.breaks(plan):
            yield _refusal(rule, plan)


def rollout_gpu_floor(
    prompts: int,
    group_size: int,
    average_tokens: int,
    tokens_per_second_per_gpu: int,
    rollout_window_seconds: int,
) -> int:
    """The least number of actor GPUs that generate one update's tokens within the window.

    prompts * group_size * average_tokens / (tokens_per_second_per_gpu * window), rounded up. A
    lower bound: long tails, reward time and synchronization come on top, and the rate is one to
    measure on the real sampling distribution. Raises ValueError unless all five are above 0.
    """
    values = (
        prompts,
        group_size,
        average_tokens,
        tokens_per_second_per_gpu,
        rollout_window_seconds,
    )
    if not all(value > 0 for value in values):
        raise ValueError("rate-model inputs must all be positive")
    demand = prompts * group_size * average_tokens
    capacity = tokens_per_second_per_gpu * rollout_window_seconds
    return int(-(-demand // capacity))  # exact, however large


def _refusal(rule: Rule, plan: Plan) -> PlanRefused:
    return PlanRefused(rule.axis, getattr(plan, rule.axis), rule.rule, rule.fix)


def _strange_values(plan: Plan) -> Iterator[PlanRefused]:
    """Words that an axis does not have, and things that are no word, number or switch."""
    for axis in AXES:
        value = getattr(plan, axis)
        if axis in VALUES and not (isinstance(value, str) and value in VALUES[axis]):
            yield _strange_word(plan, axis)
        if axis in COUNTS or axis in OPTIONAL_COUNTS:
            yield from _strange_count(axis, value)
        if axis in VERSIONS and not isinstance(value, str | None):
            yield PlanRefused(axis, value, "a version is text", "write it in quotes")
        if axis in SWITCHES and not isinstance(value, bool):
            yield PlanRefused(axis, value, "it is true or false", "write true or false")


def _strange_word(plan: Plan, axis: str) -> PlanRefused:
    value = getattr(plan, axis)
    if isinstance(value, str):
        for rule in WORD_RULES:
            if rule.axis == axis and rule.breaks(plan):
                return _refusal(rule, plan)
    home = home_of(value, axis)
    rule_text = f"it belongs to the axis {home}" if home else "there is no such value"
    return PlanRefused(axis, value, rule_text, one_of(axis))


def _strange_count(axis: str, value: object) -> Iterator[PlanRefused]:
    is_optional = axis in OPTIONAL_COUNTS
    if value is None and is_optional:
        return
    least = OPTIONAL_COUNTS[axis] if is_optional else COUNTS[axis]
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if not (is_count and isinstance(value, int) and least <= value <= MOST):
        rule = f"it is a whole number from {least} to {MOST}"
        fix = "write such a number" + (", or leave it out" if is_optional else "")
        yield PlanRefused(axis, value, rule, fix)
