"""Judges one attack from what the ledger and the logs say: contained, or missed and how."""

import math
from collections.abc import Iterator
from typing import Final

from ledger.states import StudyState, TrialState
from tests.hostile.corpus.entry import HONEST, Attack, Shape
from tests.hostile.corpus_study import Seen

WORTH: Final = 4 / 6
"""Of an honest neighbour among models; see tests.hostile.corpus_models."""


def misses(attack: Attack, seen: Seen) -> Iterator[str]:
    """Why it was not contained; nothing: it was.

    Whatever it did, its score is what its model is worth, it was not promoted, and it reached
    nothing that it must not have.
    """
    trials = seen.trials.get(attack.name, ())
    if len(trials) != attack.times:
        yield f"{len(trials)} of its {attack.times} trials are in the ledger"
    for trial in trials:
        if trial.state not in (TrialState.COMPLETE, TrialState.FAILED):
            yield f"its trial is {trial.state}"
        if not _is_true(attack, trial.value):
            yield f"its score is {trial.value}, and its model is worth {attack.truth}"
    if seen.incumbent is not None and seen.incumbent.partition("+")[0] == attack.name:
        yield "it was promoted"
    if attack.shape is not Shape.REPLAY and attack.name in seen.family:
        yield "it was replayed as a good candidate"
    lines = seen.logs.get(attack.name, "").splitlines()
    reached = [line.removeprefix("ESCAPED ") for line in lines if line.startswith("ESCAPED")]
    if reached:
        yield f"it reached {reached[0][:120]!r}"


def surprises(attack: Attack, seen: Seen) -> Iterator[str]:
    """Where its end is another than its entry says: the attack, or its reason, is broken."""
    for trial in seen.trials.get(attack.name, ()):
        scored = trial.state is TrialState.COMPLETE
        if scored and attack.fails_only:
            yield f"it was scored, and should have ended as one of {sorted(attack.ends)}"
        elif not scored and trial.reason not in attack.ends:
            yield f"it ended as {trial.reason} ({trial.detail[:300]})"


def study_misses(seen: Seen) -> Iterator[str]:
    """What the study as a whole shows: the neighbours, the controller, the host."""
    if seen.study.state is not StudyState.COMPLETED:
        yield f"the study is {seen.study.state} ({seen.study.reason}: {seen.study.detail})"
    for trial in seen.trials.get("honest", ()):
        if trial.value is None or trial.value not in (HONEST, WORTH):
            yield f"a neighbour scored {trial.value} ({trial.reason}: {trial.detail[:200]})"
    yield from seen.trouble


def _is_true(attack: Attack, value: float | None) -> bool:
    if value is None:
        return True
    if attack.shape is Shape.ANSWERS:
        return value <= attack.truth + 1e-9
    return math.isclose(value, attack.truth, abs_tol=1e-9)
