"""Which candidate a patch starts from: pure functions of the history and a seeded generator."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.records import Direction, Params
from ledger.search import FinishedTrial, History
from ledger.states import Reason, TrialState
from proposers.chat_options import LLMDiffOptions

_UNFIT: Final = frozenset({Reason.INFEASIBLE, Reason.NOT_FINITE, Reason.DUPLICATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A candidate that may be a parent."""

    candidate_id: str
    number: int
    """Of its trial; -1: the baseline."""
    params: Params
    value: float | None
    """Its score; None: nobody measured the baseline."""
    merit: float
    """The same, larger is better."""
    parent_id: str | None = None


def choose_parent(
    history: History, number: int, options: LLMDiffOptions, rng: random.Random
) -> Scored:
    """The parent of search proposal `number` by the study's rule."""
    known = scored(history)
    if options.parents == "best":
        return best(known)
    if options.parents == "tournament":
        return tournament(known, options.tournament_size, rng)
    return _of_island(history, known, number, options, rng)


def scored(history: History) -> list[Scored]:
    """The baseline, then every evaluated candidate that may be built on."""
    sign = 1.0 if history.objective.direction is Direction.MAXIMIZE else -1.0
    return [baseline(history)] + [
        Scored(
            candidate_id=trial.candidate_id,
            number=trial.number,
            params=trial.params,
            value=trial.value,
            merit=sign * trial.value,
            parent_id=trial.parent_id,
        )
        for trial in history.finished
        if trial.value is not None and _is_fit(trial)
    ]


def baseline(history: History) -> Scored:
    sign = 1.0 if history.objective.direction is Direction.MAXIMIZE else -1.0
    value = history.baseline_value
    return Scored(
        candidate_id=history.baseline_id,
        number=-1,
        params=history.baseline_params,
        value=value,
        merit=-math.inf if value is None else sign * value,
    )


def best(known: Sequence[Scored]) -> Scored:
    """The first of the best ones."""
    return max(known, key=lambda s: (s.merit, -s.number))


def tournament(known: Sequence[Scored], size: int, rng: random.Random) -> Scored:
    """The best of `size` that are drawn at random."""
    return best(rng.sample(known, min(size, len(known))))


def islands(history: History, options: LLMDiffOptions) -> dict[str, int]:
    """The island of each candidate: its parent's, but that of its turn for a child of the
    baseline and for one that was made when islands met."""
    # Numbers of trials count the baselines too; places among the search trials do not.
    numbers = sorted(
        [trial.number for trial in history.finished] + [trial.number for trial in history.pending]
    )
    turns = {number: turn for turn, number in enumerate(numbers)}
    found: dict[str, int] = {}
    for trial in sorted(history.finished, key=lambda t: t.number):
        turn = turns[trial.number]
        inherited = None if is_meeting(turn, options) else found.get(trial.parent_id or "")
        own = turn % options.islands if inherited is None else inherited
        found.setdefault(trial.candidate_id, own)
    return found


def is_meeting(turn: int, options: LLMDiffOptions) -> bool:
    """Whether that turn takes the best candidate of all islands."""
    return turn // options.islands % options.migrate_every == options.migrate_every - 1


def _of_island(
    history: History,
    known: Sequence[Scored],
    number: int,
    options: LLMDiffOptions,
    rng: random.Random,
) -> Scored:
    if is_meeting(number, options):
        return best(known)
    where: Mapping[str, int] = islands(history, options)
    island = number % options.islands
    own = [s for s in known if where.get(s.candidate_id) == island]
    return tournament(own, options.tournament_size, rng) if own else baseline(history)


def _is_fit(trial: FinishedTrial) -> bool:
    value = trial.value
    return (
        trial.state is TrialState.COMPLETE
        and trial.reason not in _UNFIT
        and value is not None
        and math.isfinite(value)
    )
