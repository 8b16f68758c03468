"""Optuna's samplers as a proposer: tpe, gp, cmaes, nsga2 and sobol.

Nothing is ever proposed twice: a draw that was proposed before is drawn again a few times, then
drawn at random, and at last a finite space is walked to its end.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

import optuna

from ledger.digests import json_digest, params_digest
from ledger.errors import InvalidInput
from ledger.records import Params
from ledger.search import History, Proposal, Proposals
from proposers.host import number_rng
from proposers.options import Options
from proposers.optuna_generations import Cmaes, Nsga2
from proposers.optuna_memory import Memory
from proposers.optuna_options import CmaesOptions, GpOptions, Nsga2Options, TpeOptions
from proposers.optuna_samplers import Asked, Document, Gp, Policy, Sobol, Tpe, draw, open_study
from proposers.optuna_space import CodedSpace
from proposers.random_search import anything, fresh_points
from proposers.search_space import SearchSpace, cardinality

REDRAWS: Final = 8
"""Draws of the sampler itself before it is left to chance."""


class OptunaSearch:
    """Raises InvalidInput for a space that the sampler cannot search."""

    def __init__(
        self,
        name: str,
        search_space: SearchSpace,
        options: Options,
        is_valid: Callable[[Params], bool] = anything,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            self._space = CodedSpace(search_space)
        except ValueError as error:
            raise InvalidInput(f"space: {error}; narrow it") from None
        self._search_space = search_space
        self._is_valid = is_valid
        self._size = cardinality(search_space)
        self._policy = make_policy(name, self._space, options)
        self._memory = Memory(self._space, cap=self._policy.cap, imputes=self._policy.imputes)
        self._space_digest = json_digest(
            {name: repr(distribution) for name, distribution in search_space.items()}
        )[:16]

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        if self._size == 0:
            return Proposals(items=())
        self._policy.load(self._read(state))
        if self._policy.reads_history:
            self._memory.update(history)
        points = [trial.params for trial in history.pending]
        made: dict[str, Params] = {}
        for number in range(history.next_number, history.next_number + count):
            asked = Asked(
                history=history,
                memory=self._memory,
                running=self._memory.running([*points, *made.values()]),
                number=number,
                study_seed=seed,
                rng=number_rng(seed, number),
            )
            found = self._next(asked, made)
            if found is None:
                break
            made[params_digest(found)] = found
        items = [Proposal(params=params) for params in made.values()]
        return Proposals(items=items, state=self._written())

    def _next(self, asked: Asked, made: Mapping[str, Params]) -> Params | None:
        """A valid point that was not proposed yet; None when the space has no more."""
        proposed = asked.history.proposed
        for _ in range(REDRAWS if self._space.codes else 0):
            ready = self._policy.ready(asked)
            params = draw(self._space, ready, open_study(ready, asked.history), asked.number)
            digest = params_digest(params)
            if digest not in made and digest not in proposed and self._is_valid(params):
                self._policy.accept(ready, digest)
                return params
            self._policy.repeat(ready, digest, asked)
        for params in fresh_points(self._search_space, self._size, asked.rng, self._is_valid):
            digest = params_digest(params)
            if digest not in made and digest not in proposed:
                return params
        return None

    def _read(self, state: bytes | None) -> Document:
        """What the last call kept; empty when there was none, or it searched another space."""
        if state is None:
            return {}
        document = json.loads(state)
        kept: Document = document["kept"] if document["space"] == self._space_digest else {}
        return kept

    def _written(self) -> bytes | None:
        kept = self._policy.dump()
        if not kept:
            return None
        return json.dumps({"space": self._space_digest, "kept": kept}).encode()


def make_policy(name: str, space: CodedSpace, options: Options) -> Policy:
    """Raises InvalidInput for a space that the sampler cannot search, ValueError for a name
    that is none of Optuna's here."""
    match name, options:
        case "tpe", TpeOptions():
            return Tpe(space, options)
        case "gp", GpOptions():
            return Gp(space, options)
        case "cmaes", CmaesOptions():
            return Cmaes(space, options)
        case "nsga2", Nsga2Options():
            return Nsga2(space, options)
        case "sobol", _:
            return Sobol(space)
    raise ValueError(f"{name} is no sampler of Optuna's")
