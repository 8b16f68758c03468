"""Optuna's samplers that work in generations, and what has to be kept of theirs.

Optuna keeps it in attributes of trials and reads all of them at every step. Here the state names
the points of the present generation by the digests of their parameters: what came of them is in
the history, so that a proposal costs the same after five thousand trials as after a hundred.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import cmaes
import numpy as np
from optuna.samplers import CmaEsSampler, NSGAIISampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from ledger.digests import params_digest
from ledger.errors import InvalidInput
from ledger.records import Json
from proposers.optuna_memory import excess_of, make_trial
from proposers.optuna_options import CmaesOptions, Nsga2Options
from proposers.optuna_samplers import Asked, Document, Ready, open_study
from proposers.optuna_space import CodedSpace

MEMBERS_KEPT: Final = 20_000
"""Points of one generation whose outcome may still come; failures never do."""


def _strings(value: Json) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def _known(asked: Asked, digests: Sequence[str]) -> dict[str, FrozenTrial]:
    """Those of the points that have a value, in the order of finishing."""
    found = {d: asked.memory.by_digest[d] for d in digests if d in asked.memory.by_digest}
    return dict(sorted(found.items(), key=lambda item: item[1].number))


# --- CMA-ES --------------------------------------------------------------------------------------


class _WrittenCma(CmaEsSampler):  # type: ignore[misc]  # Optuna's types are not followed
    """Takes its optimizer from the state, and lets it be seen afterwards."""

    written: Document | None = None
    optimizer: "cmaes.CMA | None" = None

    def _restore_optimizer(self, completed_trials: object) -> "cmaes.CMA | None":
        if self.written is None:
            return None
        self.optimizer = _revived(self.written)
        return self.optimizer

    def _init_optimizer(self, trans: object, direction: object) -> "cmaes.CMA":
        self.optimizer = super()._init_optimizer(trans, direction)
        return self.optimizer


class Cmaes:
    """Numbers that exist in every point move together; choices, and what exists in some points
    only, are drawn at random."""

    cap = 0
    imputes = False
    reads_history = True

    def __init__(self, space: CodedSpace, options: CmaesOptions) -> None:
        names = space.numeric_always()
        if not names:
            raise InvalidInput(
                "proposer.name: cmaes needs a number that exists in every point, with more than"
                " one value; write tpe"
            )
        self._space = space
        self._groups = dict.fromkeys(names, names)
        self._population = options.population
        self.load({})

    def load(self, document: Document) -> None:
        written = document.get("optimizer")
        self._optimizer = dict(written) if isinstance(written, dict) else None
        self._generation = int(str(document.get("generation", 0)))
        self._members = _strings(document.get("members", []))

    def dump(self) -> Document:
        return {
            "optimizer": self._optimizer,
            "generation": self._generation,
            "members": list(self._members),
        }

    def ready(self, asked: Asked) -> Ready:
        sampler = _WrittenCma(
            seed=asked.sampler_seed(),
            n_startup_trials=0,
            popsize=self._population,
            warn_independent_sampling=False,
        )
        sampler.written = self._optimizer
        return Ready(sampler=sampler, trials=self._told(asked), groups=self._groups)

    def _told(self, asked: Asked) -> list[FrozenTrial]:
        """Only ranks matter to CMA-ES: what breaks a constraint ranks behind all that do not,
        in the order of how much."""
        known = _known(asked, self._members).values()
        worst = max((t.values[0] for t in known if not excess_of(t)), default=0.0)
        told = []
        for number, trial in enumerate(known):
            excess = excess_of(trial)
            loss = worst + 1.0 + excess if excess else trial.values[0]
            told.append(
                make_trial(
                    self._space,
                    trial.params,
                    OptunaState.COMPLETE,
                    [loss],
                    number=number,
                    attributes={"cma:generation": self._generation},
                )
            )
        return told

    def accept(self, ready: Ready, digest: str) -> None:
        assert isinstance(ready.sampler, _WrittenCma)
        optimizer = ready.sampler.optimizer
        assert optimizer is not None
        if optimizer.generation != self._generation:
            self._generation = optimizer.generation
            self._optimizer = _written(optimizer)
            self._members = []
        self._members = [*self._members, digest][-MEMBERS_KEPT:]

    def repeat(self, ready: Ready, digest: str, asked: Asked) -> None:
        """What came of it is known: the distribution learns from it as from a new one."""
        if digest in asked.memory.by_digest:
            self.accept(ready, digest)


def _written(optimizer: "cmaes.CMA") -> Document:
    """Its distribution as JSON. How the search went so far, by which it might be ended, is left
    out: it is never ended here."""
    document: Document = {}
    for name, value in optimizer.__getstate__().items():
        if name == "_funhist_values":
            document[name] = len(value)
        elif isinstance(value, np.ndarray):
            document[name] = {"array": value.tolist()}
        else:
            document[name] = value.item() if isinstance(value, np.generic) else value
    return document


def _revived(document: Document) -> "cmaes.CMA":
    state: dict[str, object] = {}
    for name, value in document.items():
        if name == "_funhist_values":
            state[name] = np.zeros(int(str(value)))
        elif isinstance(value, dict):
            state[name] = np.array(value["array"], dtype=float)
        else:
            state[name] = value
    optimizer = cmaes.CMA.__new__(cmaes.CMA)
    optimizer.__setstate__(state)
    return optimizer


# --- NSGA-II -------------------------------------------------------------------------------------


class Nsga2:
    """All parameters are crossed together; one that does not exist in a point counts as its
    middle there."""

    cap = 0
    imputes = True
    reads_history = True

    def __init__(self, space: CodedSpace, options: Nsga2Options) -> None:
        names = tuple(space.codes)
        self._space = space
        self._groups = dict.fromkeys(names, names)
        self._population = options.population
        self.load({})

    def load(self, document: Document) -> None:
        self._generation = int(str(document.get("generation", 0)))
        self._members = _strings(document.get("members", []))
        self._parents = _strings(document.get("parents", []))

    def dump(self) -> Document:
        return {
            "generation": self._generation,
            "members": list(self._members),
            "parents": list(self._parents),
        }

    def ready(self, asked: Asked) -> Ready:
        sampler = NSGAIISampler(seed=asked.sampler_seed(), population_size=self._population)
        children = self._children(asked)
        if len(children) >= self._population:
            self._turn(asked, sampler, children)
        parents = self._shown(self._parent_trials(asked), self._generation - 1)
        return Ready(
            sampler=sampler,
            trials=parents,
            groups=self._groups,
            attributes={sampler._get_generation_key(): self._generation},
            study_attributes=self._parentage(sampler, parents),
        )

    def _children(self, asked: Asked) -> dict[str, FrozenTrial]:
        """This generation's points that have a value; the baseline is one of the first."""
        known = _known(asked, self._members)
        baseline = asked.memory.baseline(asked.history) if self._generation == 0 else None
        if baseline is None:
            return known
        return {params_digest(asked.history.baseline_params): baseline} | known

    def _parent_trials(self, asked: Asked) -> dict[str, FrozenTrial]:
        known = _known(asked, self._parents)
        own = params_digest(asked.history.baseline_params)
        baseline = asked.memory.baseline(asked.history) if own in self._parents else None
        return known if baseline is None or own in known else {own: baseline} | known

    def _turn(
        self, asked: Asked, sampler: NSGAIISampler, children: dict[str, FrozenTrial]
    ) -> None:
        """The next generation's parents are chosen from this one's parents and children."""
        parents = self._parent_trials(asked)
        shown_parents = self._shown(parents, self._generation - 1)
        shown = [
            *shown_parents,
            *self._shown(children, self._generation, first=len(parents)),
        ]
        attributes = self._parentage(sampler, shown_parents)
        ready = Ready(sampler=sampler, trials=shown, study_attributes=attributes)
        study = open_study(ready, asked.history)
        chosen = sampler.select_parent(study, self._generation + 1)
        digests = [*parents, *children]
        self._parents = [digests[trial.number] for trial in chosen]
        self._members = []
        self._generation += 1

    def _shown(
        self, trials: Mapping[str, FrozenTrial], generation: int, *, first: int = 0
    ) -> list[FrozenTrial]:
        """The trials carrying their generation the way Optuna looks for it."""
        key = NSGAIISampler._get_generation_key()
        copies = [
            make_trial(
                self._space,
                trial.params,
                OptunaState.COMPLETE,
                trial.values,
                number=number,
                attributes={key: generation},
            )
            for number, trial in enumerate(trials.values(), first)
        ]
        for copy, trial in zip(copies, trials.values(), strict=True):
            for name, excess in trial.constraints.items():
                copy.set_constraint(name, excess)
        return copies

    def _parentage(
        self, sampler: NSGAIISampler, parents: Sequence[FrozenTrial]
    ) -> dict[str, object]:
        key = sampler._get_parent_cache_key_prefix() + str(self._generation)
        return {key: [trial._trial_id for trial in parents]}

    def accept(self, ready: Ready, digest: str) -> None:
        self._members = [*self._members, digest][-MEMBERS_KEPT:]

    def repeat(self, ready: Ready, digest: str, asked: Asked) -> None:
        return
