"""A study of the learned policy driven by hand: what was proposed, what came of it, and when."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ledger.digests import params_digest
from ledger.records import Direction, Objective, Params
from ledger.search import FinishedTrial, History, PendingTrial
from ledger.states import Reason, TrialState
from proposers.host import ask
from proposers.ppo import PpoSearch
from proposers.ppo_options import PpoOptions
from proposers.search_space import SearchSpace

DOWN = Objective(metric="loss", direction=Direction.MINIMIZE)


@dataclass
class Driven:
    """Trial numbers begin at 7: a study has other trials than those of its search."""

    space: SearchSpace
    value: Callable[[Params], float | None]
    """None: the trial fails."""
    options: PpoOptions = field(default_factory=PpoOptions)
    objective: Objective = DOWN
    seed: int = 0
    noise_floor: float = 0.0
    baseline: Sequence[float] = ()
    made: list[Params] = field(default_factory=list)
    finished: list[FinishedTrial] = field(default_factory=list)
    pending: list[PendingTrial] = field(default_factory=list)
    state: bytes | None = None
    proposer: PpoSearch = field(init=False)

    def __post_init__(self) -> None:
        self.proposer = self.fresh()

    def fresh(self) -> PpoSearch:
        return PpoSearch(self.space, self.options)

    def history(self) -> History:
        return History(
            objective=self.objective,
            next_number=len(self.made),
            finished=self.finished,
            pending=list(self.pending),
            proposed={params_digest(params) for params in self.made},
            noise_floor=self.noise_floor,
            baseline=self.baseline,
        )

    def ask(self, count: int = 1) -> list[Params]:
        given = ask(
            self.proposer,
            self.history(),
            space=self.space,
            count=count,
            seed=self.seed,
            state=self.state,
        )
        self.state = given.state
        for item in given.items:
            number = len(self.made) + 7
            self.pending.append(
                PendingTrial(number=number, params=item.params, candidate_id=f"c{number}")
            )
            self.made.append(item.params)
        return [item.params for item in given.items]

    def end(self, place: int = 0, state: TrialState | None = None) -> FinishedTrial:
        """The pending trial at `place` ends."""
        trial = self.pending.pop(place)
        value = self.value(trial.params) if state is None else None
        ended = FinishedTrial(
            number=trial.number,
            params=trial.params,
            state=state or (TrialState.FAILED if value is None else TrialState.COMPLETE),
            value=value,
            reason=Reason.CRASHED if value is None else Reason.WORSE,
            candidate_id=trial.candidate_id,
            kept=False,
        )
        self.finished.append(ended)
        return ended

    def run(self, trials: int, batch: int = 1) -> list[float | None]:
        """The values of so many more trials, in the order of finishing."""
        before = len(self.finished)
        while len(self.finished) < before + trials:
            if not self.ask(min(batch, before + trials - len(self.finished))):
                break
            while self.pending:
                self.end()
        return [trial.value for trial in self.finished[before:]]

    def best(self) -> float:
        return min(trial.value for trial in self.finished if trial.value is not None)
