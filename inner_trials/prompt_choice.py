"""Chooses the prompts of each generation so that those which teach nothing rest, and says at
what cost: what was not shown, and by how much the reward of what was shown is off.

A group whose rewards are all equal moves no weight. A prompt that gave `rest_after` such groups
in a row, all passed or all failed, is passed over for the next `rest_passes` passes over the data
and then tried again. Pure, by the seed alone; its state goes into checkpoints.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final

SAME: Final = 1e-9
"""Rewards no further apart than this are equal."""


@dataclass(slots=True)
class Known:
    """What is known of a prompt that was sampled."""

    reward: float
    """The verdict's mean over its last group, before other parts of the reward."""
    has_passed: bool = False
    """Of a group that taught nothing, whether its completions were worth anything."""
    idle_groups: int = 0
    """Groups in a row that taught nothing in the same way."""
    rests_until: int = 0
    """The pass over the data in which it is shown again."""
    is_learned: bool = False
    """Whether any group of it reached the learner."""


@dataclass(frozen=True, slots=True)
class Group:
    row: int
    verdict: float
    passed: float
    """Share of its completions that are worth anything."""


class PromptChoice:
    def __init__(
        self, rows: Sequence[int], *, seed: int, rest_after: int, rest_passes: int
    ) -> None:
        """`rows` are the numbers of all prompts that may be shown."""
        self._rows = list(rows)
        self._seed = seed
        self._rest_after, self._rest_passes = rest_after, rest_passes
        self._known: dict[int, Known] = {}
        self._passes, self._at = 0, 0
        self._order = self._order_of(0)
        self._rested: list[int] = []
        self._sampled: list[Group] = []
        self._learned: list[Group] = []

    def draw(self, count: int) -> list[int]:
        """The next prompts in turn that do not rest. When all do, they are shown all the same."""
        drawn: list[int] = []
        resting: list[int] = []
        while len(drawn) < count:
            row = self._next()
            if self._is_resting(row) and len(resting) < len(self._rows):
                resting.append(row)
            else:
                drawn.append(row)
        self._rested += resting
        return drawn

    def see(self, row: int, rewards: Sequence[float], verdicts: Sequence[float]) -> bool:
        """Take in one group of a prompt; returns whether there is anything to learn from it.

        `verdicts` are the part of each reward that says passed (more than 0) or failed.
        """
        known = self._known.setdefault(row, Known(0.0))
        known.reward = fmean(verdicts)
        passed = fmean(value > 0.0 for value in verdicts)
        self._sampled.append(Group(row, known.reward, passed))
        if max(rewards) - min(rewards) > SAME:
            known.idle_groups, known.rests_until = 0, 0
            return True
        is_same = known.idle_groups > 0 and known.has_passed == (passed > 0.0)
        known.idle_groups = known.idle_groups + 1 if is_same else 1
        known.has_passed = passed > 0.0
        if known.idle_groups >= self._rest_after:
            known.rests_until = self._passes + self._rest_passes + 1
        return False

    def learn(self, numbers: Sequence[int]) -> None:
        """Say which of the groups seen in this generation, by the order they were seen in, reach
        the learner."""
        self._learned = [self._sampled[number] for number in numbers]
        for group in self._learned:
            self._known[group.row].is_learned = True

    def end_generation(self) -> dict[str, float]:
        """What this generation's choice did to what is learned, and begin the next one.

        `reward_all` estimates what the verdicts' mean would have been over every prompt that was
        come by: those sampled with what they showed, those at rest with what they showed last.
        """
        came_by = len(self._rested) + len(self._sampled)
        everyone = [group.verdict for group in self._sampled]
        everyone += [self._known[row].reward for row in self._rested]
        shown = fmean(group.verdict for group in self._learned)
        values = {
            "resting": len(self._rested) / came_by,
            "left_out": (len(self._sampled) - len(self._learned)) / came_by,
            "pass_rate": fmean(group.passed for group in self._sampled),
            "reward_shown": shown,
            "reward_all": fmean(everyone),
            "reward_shift": shown - fmean(everyone),
            **self._shares(),
        }
        self._rested, self._sampled, self._learned = [], [], []
        return values

    def _shares(self) -> dict[str, float]:
        """Of all prompts, as things are now."""
        resting = [self._known[row] for row in self._rows if self._is_resting(row)]
        learned = sum(known.is_learned for known in self._known.values())
        total = len(self._rows)
        return {
            "never_learned": 1.0 - learned / total,
            "always_pass": sum(known.has_passed for known in resting) / total,
            "always_fail": sum(not known.has_passed for known in resting) / total,
        }

    def state(self) -> dict[str, Any]:
        """Between generations, as JSON can hold it."""
        known = {str(row): asdict(one) for row, one in self._known.items()}
        return {"passes": self._passes, "at": self._at, "known": known}

    def load(self, state: Mapping[str, Any]) -> None:
        self._passes, self._at = state["passes"], state["at"]
        self._order = self._order_of(self._passes)
        self._known = {int(row): Known(**one) for row, one in state["known"].items()}

    def _is_resting(self, row: int) -> bool:
        known = self._known.get(row)
        return known is not None and known.rests_until > self._passes

    def _next(self) -> int:
        if self._at == len(self._order):
            self._passes, self._at = self._passes + 1, 0
            self._order = self._order_of(self._passes)
        self._at += 1
        return self._order[self._at - 1]

    def _order_of(self, number: int) -> list[int]:
        order = list(self._rows)
        random.Random(f"{self._seed}/{number}").shuffle(order)
        return order
