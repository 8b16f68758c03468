"""Optuna's samplers, each made anew for every proposal from what the study knows.

A sampler that is made anew has nothing hidden in it: what it proposes depends on the trials it
is shown, on the proposal's own seed, and on the state written down in `optuna_generations`.
Where Optuna works out at every step which parameters all trials share, it is told here: the
space is known.
"""

import random
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, cast

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, QMCSampler, TPESampler
from optuna.storages import InMemoryStorage
from optuna.study import Study
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from ledger.records import Json, Params
from ledger.search import History
from proposers.host import number_rng
from proposers.optuna_memory import Memory, make_trial
from proposers.optuna_options import GpOptions, TpeOptions
from proposers.optuna_space import CodedSpace
from proposers.search_space import is_active

SEED_BITS: Final = 32
TPE_CAP: Final = 400
GP_CAP: Final = 150
"""Trials shown to a sampler at most, see optuna_memory."""

Document: TypeAlias = dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one proposal is drawn from."""

    history: History
    memory: Memory
    running: Sequence[FrozenTrial]
    number: int
    study_seed: int
    rng: random.Random

    def finished(self) -> list[FrozenTrial]:
        baseline = self.memory.baseline(self.history)
        return [*([] if baseline is None else [baseline]), *self.memory.kept]

    def sampler_seed(self) -> int:
        return self.rng.getrandbits(SEED_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A sampler and the study it looks at, for one draw."""

    sampler: BaseSampler
    trials: Sequence[FrozenTrial]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each parameter those that are drawn together with it; the others are drawn alone."""
    attributes: Mapping[str, object] = field(default_factory=dict)
    """Of the trial that is being drawn."""
    study_attributes: Mapping[str, object] = field(default_factory=dict)


class Policy(Protocol):
    """One of Optuna's samplers and what it needs kept between calls."""

    cap: int
    """How many trials it is shown; 0: those it asks for by digest."""
    imputes: bool
    reads_history: bool

    def load(self, document: Document) -> None:
        """Take back what `dump` gave; an empty one is a study's start."""
        ...

    def dump(self) -> Document: ...

    def ready(self, asked: Asked) -> Ready: ...

    def accept(self, ready: Ready, digest: str) -> None:
        """The draw becomes a proposal."""
        ...

    def repeat(self, ready: Ready, digest: str, asked: Asked) -> None:
        """The draw was proposed before: it will be drawn again."""
        ...


class Stateless:
    """Of samplers that need nothing kept."""

    reads_history = True

    def load(self, document: Document) -> None:
        return

    def dump(self) -> Document:
        return {}

    def accept(self, ready: Ready, digest: str) -> None:
        return

    def repeat(self, ready: Ready, digest: str, asked: Asked) -> None:
        return


class Tpe(Stateless):
    """Parameters that exist under the same conditions are modelled together, as Optuna does it
    with one objective; with several it models each alone."""

    cap = TPE_CAP
    imputes = False

    def __init__(self, space: CodedSpace, options: TpeOptions) -> None:
        self._groups = space.joint_groups()
        self._options = options

    def ready(self, asked: Asked) -> Ready:
        return Ready(
            sampler=TPESampler(
                seed=asked.sampler_seed(),
                n_startup_trials=self._options.startup_trials,
                n_ei_candidates=self._options.candidates,
            ),
            trials=[*asked.finished(), *asked.running],
            groups={} if asked.history.further else self._groups,
        )


class Gp(Stateless):
    """All parameters are modelled together; one that does not exist in a point counts as its
    middle there."""

    cap = GP_CAP
    imputes = True

    def __init__(self, space: CodedSpace, options: GpOptions) -> None:
        names = tuple(space.codes)
        self._groups = dict.fromkeys(names, names)
        self._options = options

    def ready(self, asked: Asked) -> Ready:
        return Ready(
            sampler=GPSampler(
                seed=asked.sampler_seed(),
                n_startup_trials=self._options.startup_trials,
                warn_independent_sampling=False,
            ),
            trials=[*asked.finished(), *asked.running],
            groups=self._groups,
        )


class _PlacedSobol(QMCSampler):  # type: ignore[misc]  # Optuna's types are not followed
    """Optuna counts the points of the sequence in its study; here the place is given."""

    place = 0

    @classmethod
    def seeded(cls, seed: int) -> "_PlacedSobol":
        with warnings.catch_warnings():  # Optuna calls it experimental
            warnings.simplefilter("ignore", ExperimentalWarning)
            return cls(scramble=True, seed=seed, warn_independent_sampling=False)

    def _find_sample_id(self, study: Study, search_space: object) -> int:
        return self.place


class Sobol:
    """Every parameter is one dimension, also those that exist in some points only."""

    cap = 0
    imputes = False
    reads_history = False

    def __init__(self, space: CodedSpace) -> None:
        names = tuple(space.codes)
        self._groups = dict.fromkeys(names, names)
        self._next = 0
        self._sampler: _PlacedSobol | None = None
        self._seed = 0

    def load(self, document: Document) -> None:
        place = document.get("next", 0)
        self._next = place if isinstance(place, int) else 0

    def dump(self) -> Document:
        return {"next": self._next}

    def ready(self, asked: Asked) -> Ready:
        seed = number_rng(asked.study_seed, -1).getrandbits(SEED_BITS)
        if self._sampler is None or self._seed != seed:
            self._sampler, self._seed = _PlacedSobol.seeded(seed), seed
        self._sampler.place = self._next
        return Ready(sampler=self._sampler, trials=(), groups=self._groups)

    def accept(self, ready: Ready, digest: str) -> None:
        self._next += 1

    def repeat(self, ready: Ready, digest: str, asked: Asked) -> None:
        self._next += 1


class _ShownTrials(InMemoryStorage):  # type: ignore[misc]  # Optuna's types are not followed
    """Shows samplers the trials it is given; what they note about the one being drawn, for other
    processes to see, is dropped."""

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._shown = trials

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,  # noqa: FBT001, FBT002 - Optuna's signature
        states: object = None,
    ) -> list[FrozenTrial]:
        if states is None:
            return list(self._shown)
        chosen = cast("Container[object]", states)
        return [trial for trial in self._shown if trial.state in chosen]

    def set_trial_system_attr(self, trial_id: int, key: str, value: object) -> None:
        return


def open_study(ready: Ready, history: History) -> Study:
    """An Optuna study that holds the trials of `ready` and nothing else."""
    directions = ["minimize"] * (1 + len(history.further))
    study = optuna.create_study(
        storage=_ShownTrials(ready.trials), study_name="arl", directions=directions
    )
    for key, value in ready.study_attributes.items():
        study._storage.set_study_system_attr(study._study_id, key, value)
    return study


def draw(space: CodedSpace, ready: Ready, study: Study, number: int) -> Params:
    """One point, parameter by parameter, each after those its conditions are about."""
    attributes = dict(ready.attributes)
    trial = make_trial(space, {}, OptunaState.RUNNING, number=number, attributes=attributes)
    params: Params = {}
    drawn: dict[str, float | int] = {}
    done: set[tuple[str, ...]] = set()
    for name in space.order:
        if not is_active(space.space, name, params):
            continue
        code = space.codes.get(name)
        if code is None:  # the only value there is
            params = {**params, name: space.space[name].at(0)}
            continue
        group = ready.groups.get(name, ())
        if group and group not in done:
            done.add(group)
            drawn |= ready.sampler.sample_relative(study, trial, space.distributions(group))
        if name not in drawn:
            drawn[name] = ready.sampler.sample_independent(study, trial, name, code.optuna)
        params = {**params, name: code.decode(drawn[name])}
    return dict(sorted(params.items()))
