"""Optuna's samplers that work in generations, and what has to be kept of theirs.

Optuna keeps it in attributes of trials and reads all of them at every step. Here the state names
the points of the present generation by the digests of their parameters: what came of them is in
the history, so that a proposal costs the same after five thousand trials as after a hundred.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import cmaes
from optuna.samplers import NSGAIISampler
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as OptunaState

from ledger.digests import params_digest, storable_float
from ledger.errors import InvalidInput
from ledger.records import Json
from proposers.optuna_cma import (
    NARROW,
    WrittenCma,
    first_distribution,
    is_in_reach,
    place_of,
    revived,
    written,
)
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
        self._follows = options.follows
        self.load({})

    def load(self, document: Document) -> None:
        written, start = document.get("optimizer"), document.get("start")
        self._start = dict(start) if isinstance(start, dict) else None
        self._spread = float(str(document.get("spread", NARROW)))
        self._lowest = float(str(document.get("lowest", math.inf)))
        self._lowest_before = float(str(document.get("lowest_before", math.inf)))
        self._optimizer = dict(written) if isinstance(written, dict) else None
        self._generation = int(str(document.get("generation", 0)))
        self._members = _strings(document.get("members", []))

    def dump(self) -> Document:
        return {
            "optimizer": self._optimizer,
            "generation": self._generation,
            "members": list(self._members),
            **(self._dump_start() if self._follows else {}),
        }

    def _dump_start(self) -> Document:
        return {
            "start": self._start,
            "spread": self._spread,
            "lowest": storable_float(self._lowest),
            "lowest_before": storable_float(self._lowest_before),
        }

    def ready(self, asked: Asked) -> Ready:
        if self._follows:
            self._follow(asked)
        sampler = WrittenCma(
            seed=asked.sampler_seed(),
            n_startup_trials=0,
            popsize=self._population,
            warn_independent_sampling=False,
        )
        sampler.written = self._optimizer
        sampler.start, sampler.spread = self._start, self._spread
        return Ready(sampler=sampler, trials=self._told(asked), groups=self._groups)

    def _follow(self, asked: Asked) -> None:
        """Start again around the best point known, whoever found it, if it is better than this
        generation and the one before, and out of reach. The first start, too, is there once
        others have tried a generation's points."""
        for trial in _known(asked, self._members).values():
            if not excess_of(trial):
                self._lowest = min(self._lowest, trial.values[0])
        best, names = asked.memory.best, list(self._groups)
        if best is None or asked.history.further:
            return
        if not self._members and self._optimizer is None and self._start is None:
            starts = len(asked.memory.by_digest) >= 4 + 3 * math.log(len(names))
        else:
            lowest = min(self._lowest, self._lowest_before)
            starts = best.values[0] < lowest - asked.history.noise_floor and not is_in_reach(
                place_of(self._space, names, best.params), self._distribution(names)
            )
        if not starts:
            return
        start = {name: best.params[name] for name in names}
        self._spread = self._spread / 2 if start == self._start else NARROW
        self._start, self._optimizer = start, None
        self._generation, self._members = 0, []
        self._lowest = self._lowest_before = math.inf

    def _distribution(self, names: Sequence[str]) -> "cmaes.CMA":
        if self._optimizer is not None:
            return revived(self._optimizer)
        start = self._start
        place = None if start is None else place_of(self._space, names, start)
        return first_distribution(place, self._spread, len(names))

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
        assert isinstance(ready.sampler, WrittenCma)
        optimizer = ready.sampler.optimizer
        assert optimizer is not None
        if optimizer.generation != self._generation:
            self._generation = optimizer.generation
            self._optimizer = written(optimizer)
            self._members = []
            self._lowest_before, self._lowest = self._lowest, math.inf
        self._members = [*self._members, digest][-MEMBERS_KEPT:]

    def repeat(self, ready: Ready, digest: str, asked: Asked) -> None:
        """What came of it is known: the distribution learns from it as from a new one."""
        if digest in asked.memory.by_digest:
            self.accept(ready, digest)


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
