"""Runs the corpus over targets: each study once, when the first of its attacks is asked for."""

from collections.abc import Iterator, Mapping
from typing import Final

from ledger.states import TrialState
from tests.hostile.corpus.entry import Attack, Shape
from tests.hostile.corpus.everything import ATTACKS, FIRST
from tests.hostile.corpus_study import Seen, run_study
from tests.hostile.corpus_verdicts import misses, study_misses, surprises

ALONE: Final = frozenset({Shape.REPLAY})
"""Attacks with a study of their own: a gate replays only the best of one."""
LOCAL: Final = "local"


def is_heavy(attack: Attack, target: str) -> bool:
    """Whether it is left for the slow tests: bubblewrap has all that no fast test can do without,
    the others what depends on the target most, and parsing a document is the same everywhere."""
    if attack.slow or attack.name in FIRST:
        return attack.slow
    if attack.shape is Shape.DOCUMENTS:
        return target != LOCAL
    return target != "bubblewrap"


def is_run(attack: Attack, target: str) -> bool:
    """Without a sandbox nothing is run that would do harm: it counts as missed."""
    return not (target == LOCAL and attack.hurts)


def attacks_for(target: str) -> Iterator[Attack]:
    return (attack for attack in ATTACKS.values() if is_run(attack, target))


class Studies:
    """The hostile studies of one target."""

    def __init__(self, target: str, environment: Mapping[str, str] | None = None) -> None:
        self.target = target
        self._environment = environment or {}
        self._seen: dict[tuple[str, ...], Seen] = {}

    def of(self, attack: Attack) -> Seen:
        """What was seen of the study that this attack is in; it is run the first time."""
        together = self._together(attack)
        key = tuple(sorted(other.name for other in together))
        if key not in self._seen:
            self._seen[key] = run_study(
                together, attack.shape, self.target, environment=self._environment
            )
        return self._seen[key]

    def _together(self, attack: Attack) -> list[Attack]:
        if attack.shape in ALONE or (attack.slow and attack.shape is not Shape.MODEL):
            return [attack]
        heavy = is_heavy(attack, self.target)
        return [
            other
            for other in attacks_for(self.target)
            if other.shape is attack.shape
            and other.slow == attack.slow
            and is_heavy(other, self.target) == heavy
        ]

    def misses(self, attack: Attack) -> list[str]:
        """Why it was not contained; empty: it was."""
        return [*misses(attack, self.of(attack))]

    def surprises(self, attack: Attack) -> list[str]:
        """Where it ended in another way than its entry says."""
        return [*surprises(attack, self.of(attack))]

    def endings(self, attack: Attack) -> list[str]:
        """How its trials ended: `scored`, or the reason."""
        trials = self.of(attack).trials[attack.name]
        ends = ["scored" if t.state is TrialState.COMPLETE else str(t.reason) for t in trials]
        return sorted(set(ends))

    @property
    def count(self) -> int:
        """How many studies were run."""
        return len(self._seen)

    def broken(self) -> list[str]:
        """What the studies run so far show of the controller, the host and honest neighbours."""
        return [line for seen in self._seen.values() for line in study_misses(seen)]
