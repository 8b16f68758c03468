"""Every candidate of a study, and the answer that a duplicate of one is served with."""

from array import array
from bisect import bisect_left
from dataclasses import dataclass

from ledger.finished_trials import FinishedTrials, Outcome
from ledger.search import FinishedTrial
from ledger.states import Reason, TrialState


@dataclass(frozen=True, slots=True)
class Known:
    """Where a duplicate of a candidate finds its answer."""

    number: int
    """Of the trial that first gave it."""
    value: float | None


def answers(trial: FinishedTrial | Outcome) -> bool:
    """Whether a trial gave an answer of its own."""
    return trial.state is TrialState.COMPLETE and trial.reason is not Reason.DUPLICATE


class Candidates:
    """Candidate ids to what is known of them. Those of a packed history that had one trial each
    are looked up there: all that is kept of them is twelve bytes."""

    def __init__(self) -> None:
        self._known: dict[str, Known | None] = {}
        self._finished = FinishedTrials()
        self._hashes = array("q")
        """Of the ids of `_finished`, the least first."""
        self._places = array("i")
        """Where in `_finished` each of them is."""

    def look_up_in(self, finished: FinishedTrials) -> set[int]:
        """Know the candidates of these trials, as far as nothing else is set of one. The hashes of
        the ids that occur more than once: the answer to those has to be set."""
        hashes = array("q", map(hash, finished.candidate_ids()))
        self._places = array("i", sorted(range(len(hashes)), key=hashes.__getitem__))
        self._hashes = array("q", map(hashes.__getitem__, self._places))
        self._finished = finished
        pairs = zip(self._hashes, self._hashes[1:], strict=False)
        return {one for one, other in pairs if one == other}

    def __contains__(self, candidate_id: str) -> bool:
        return candidate_id in self._known or self._find(candidate_id) is not None

    def __getitem__(self, candidate_id: str) -> Known | None:
        """Raises KeyError."""
        if candidate_id in self._known:
            return self._known[candidate_id]
        trial = self._find(candidate_id)
        if trial is None:
            raise KeyError(candidate_id)
        return Known(trial.number, trial.value) if answers(trial) else None

    def get(self, candidate_id: str) -> Known | None:
        return self[candidate_id] if candidate_id in self else None

    def __setitem__(self, candidate_id: str, known: Known | None) -> None:
        self._known[candidate_id] = known

    def setdefault(self, candidate_id: str, known: Known | None) -> Known | None:
        if candidate_id not in self:
            self[candidate_id] = known
        return self[candidate_id]

    def entered(self, candidate_id: str) -> Known | None:
        """What was set of it, whatever the history says; from now on at least that it is there."""
        return self._known.setdefault(candidate_id, None)

    def _find(self, candidate_id: str) -> FinishedTrial | None:
        sought = hash(candidate_id)
        at = bisect_left(self._hashes, sought)
        while at < len(self._hashes) and self._hashes[at] == sought:
            trial = self._finished[self._places[at]]
            if trial.candidate_id == candidate_id:
                return trial
            at += 1
        return None
