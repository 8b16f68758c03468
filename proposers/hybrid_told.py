"""What each arm of a hybrid is told, and the candidate that its parameters build on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ledger.digests import params_digest
from ledger.records import Direction
from ledger.search import FinishedTrial, History, PendingTrial, Proposal
from ledger.states import Reason
from proposers.hybrid_arms import Arm

_NO_PATCH: Final = frozenset({Reason.MALFORMED_PATCH, Reason.NO_CHANGE, Reason.DUPLICATE})
_NO_BEST: Final = frozenset({Reason.INFEASIBLE, Reason.NOT_FINITE})


def tell(history: History, arm: Arm, made: Sequence[Proposal], *, patched: bool) -> History:
    """The study's history as one arm may know it, after the proposals that others just made.

    What a model is asked is priced before it is known what others propose, so it is told nothing
    of those but which points are taken.
    """
    if not arm.registered.writes_patches:
        history = replace(history, sources=None)
    if patched and arm.is_told_values:
        history = on_one_source(history)
    if not made:
        return history
    taken = {params_digest(proposal.params) for proposal in made if proposal.patch is None}
    pending = history.pending
    if arm.is_told_values:
        pending = [
            *pending,
            *(
                PendingTrial(number=history.next_number + n, params=p.params, candidate_id="")
                for n, p in enumerate(made)
                if p.patch is None
            ),
        ]
    return replace(
        history,
        next_number=history.next_number + len(made),
        proposed=frozenset(history.proposed | taken),
        pending=pending,
    )


def find_patched(history: History) -> FinishedTrial | None:
    """The leader, if its source is not the baseline's: what parameters are tried on next."""
    leader = next((trial for trial in reversed(history.finished) if trial.kept), None)
    if leader is None or leader.source_digest in (None, history.baseline_source):
        return None
    return leader


def on_one_source(history: History) -> History:
    """The trials that chose parameters, their values as they would be on the baseline's source.

    A patch keeps its parent's parameters, so the difference between the two values is the worth
    of the patch. It is taken off the values of what was tried on it, as if both kinds of progress
    added up: else every point tried before a good patch would look bad beside every one after it.
    """
    worth: dict[str | None, float] = {history.baseline_source: 0.0}
    sources: dict[str, str | None] = {history.baseline_id: history.baseline_source}
    values: dict[str, float] = {}
    if history.baseline_value is not None:
        values[history.baseline_id] = history.baseline_value
    told: list[FinishedTrial] = []
    for trial in history.finished:
        if trial.candidate_id in sources or trial.reason in _NO_PATCH:
            continue
        source = trial.source_digest
        parent = trial.parent_id or history.baseline_id
        was = sources.get(parent, source)
        sources[trial.candidate_id] = source
        if trial.value is not None:
            values[trial.candidate_id] = trial.value
            if source not in worth and parent in values:
                worth[source] = worth.get(was, 0.0) + trial.value - values[parent]
        if source == was and source in worth:
            value = None if trial.value is None else trial.value - worth[source]
            told.append(replace(trial, value=value) if worth[source] else trial)
    return replace(history, finished=told, best=_best(history, told))


def _best(history: History, told: Sequence[FinishedTrial]) -> float | None:
    values = [t.value for t in told if t.value is not None and t.reason not in _NO_BEST]
    choose = max if history.objective.direction is Direction.MAXIMIZE else min
    return choose(values, default=None)
