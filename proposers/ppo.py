"""A learned policy as the outer learner: PPO proposes, what becomes of the trials teaches it.

The policy looks at the study (`ppo_features`) and says for every coordinate of the unit cube where
to go and how widely (`ppo_policy`); a proposal is a draw from that, never its mean. It starts with
what it learned from made-up functions (`ppo_pretrain`), and every so many trials that end it is
updated from what they brought (`ppo_learner`).

Nothing is proposed twice: a draw that was proposed before is drawn again a few times, then drawn
at random, and at last a finite space is walked to its end. From such points nothing is learned.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from ledger.digests import json_digest, params_digest
from ledger.errors import ProposerFailed
from ledger.records import Params
from ledger.search import History, Proposal, Proposals
from proposers.host import number_rng
from proposers.ppo_features import COLUMNS, Observation, observe
from proposers.ppo_learner import Knowledge, Learner
from proposers.ppo_memory import Memory
from proposers.ppo_model import fold
from proposers.ppo_options import NONE, SHIPPED, PpoOptions
from proposers.ppo_rollout import Step, settle
from proposers.ppo_seen import STUDY, Seen, look
from proposers.ppo_space import Array, UnitCube
from proposers.ppo_state import SHIPPED as SHIPPED_PATH
from proposers.ppo_state import Kept, read, read_weights, write
from proposers.random_search import anything, fresh_points
from proposers.search_space import SearchSpace, cardinality

REDRAWS: Final = 8
SEED_BITS: Final = 32
_COUNTS: Final = COLUMNS.index("counts")


@dataclass(slots=True)
class Call:
    """One call of propose."""

    history: History
    seed: int
    pending: list[Step]
    rollout: list[Step]
    made: dict[str, Params] = field(default_factory=dict)
    running: list[Array] = field(default_factory=list)
    """Points that are being tried, those of this call included."""

    def is_new(self, params: Params) -> bool:
        digest = params_digest(params)
        return digest not in self.made and digest not in self.history.proposed


class PpoSearch:
    """See proposers.protocol. The file of `warm_start` is read by the first call alone, which
    raises InvalidInput where it is no good: afterwards the weights are in the state."""

    def __init__(
        self,
        search_space: SearchSpace,
        options: PpoOptions,
        is_valid: Callable[[Params], bool] = anything,
    ) -> None:
        self._space = search_space
        self._options = options
        self._is_valid = is_valid
        self._size = cardinality(search_space)
        self._cube = UnitCube(search_space)
        self._memory = Memory(self._cube)
        self._digest = json_digest({name: repr(d) for name, d in search_space.items()})[:16]
        self._learner = Learner(max(self._cube.width, 1), options)
        self._written: bytes | None = None
        """The state that the learner is in; None: it is in none."""

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        if self._size == 0:
            return Proposals(items=())
        self._memory.update(history)
        call = self._begin(history, seed, state)
        self._learn(call)
        if self._cube.width:
            points = [self._cube.encode(trial.params) for trial in history.pending]
            call.running = [point for point in points if point is not None]
        seen = look(self._cube, self._memory, history) if count and self._cube.width else None
        for number in range(history.next_number, history.next_number + count):
            found = self._next(call, seen, number)
            if found is None:
                break
            call.made[params_digest(found)] = found
        items = [Proposal(params=params) for params in call.made.values()]
        return Proposals(items=items, state=self._end(call))

    # --- state ---------------------------------------------------------------------------------

    def _begin(self, history: History, seed: int, state: bytes | None) -> Call:
        """Take up the state; without one, or with another space's, start with what is known."""
        kept = None if state is None else read(state)
        if kept is None or kept.space != self._digest:
            self._learner = Learner(max(self._cube.width, 1), self._options, seed=seed)
            self._warm_up()
            return Call(history, seed, [], [])
        if state != self._written:
            self._take(kept.knowledge)
        return Call(history, seed, list(kept.pending), list(kept.rollout))

    def _warm_up(self) -> None:
        start = self._options.warm_start
        if start != NONE:
            weights = read_weights(SHIPPED_PATH if start == SHIPPED else Path(start))
            self._take(replace(self._learner.knowledge(), weights=weights))

    def _take(self, known: Knowledge) -> None:
        try:
            self._learner.take(known)
        except ValueError as error:
            raise ProposerFailed(f"what it learned does not fit this ARL: {error}") from None

    def _end(self, call: Call) -> bytes:
        kept = Kept(
            space=self._digest,
            knowledge=self._learner.knowledge(),
            pending=call.pending,
            rollout=call.rollout,
        )
        self._written = write(kept)
        return self._written

    # --- learning ------------------------------------------------------------------------------

    def _learn(self, call: Call) -> None:
        call.pending, ended = settle(call.pending, self._memory, call.history)
        call.rollout += ended
        size = self._options.update_every
        while len(call.rollout) >= size:
            self._learner.update(call.rollout[:size])
            call.rollout = call.rollout[size:]

    # --- proposing -----------------------------------------------------------------------------

    def _next(self, call: Call, seen: Seen | None, number: int) -> Params | None:
        """A valid point that was not proposed yet; None when the space has no more."""
        rng = number_rng(call.seed, number)
        if seen is not None:
            params = self._drawn(call, seen, rng)
            if params is not None:
                return params
        for params in fresh_points(self._space, self._size, rng, self._is_valid):
            if call.is_new(params):
                vector = self._cube.encode(params)
                if vector is not None:
                    call.running.append(vector)
                return params
        return None

    def _drawn(self, call: Call, seen: Seen, rng: random.Random) -> Params | None:
        """A new point from the policy; None when its draws were all proposed before."""
        generator = np.random.default_rng(rng.getrandbits(SEED_BITS))
        pending = np.array(call.running).reshape(len(call.running), self._cube.width)
        observation = observe(self._cube, seen, pending, generator)
        means, widths, value = self._learner.decide(observation)
        for _ in range(REDRAWS):
            action = (means + widths * generator.normal(size=self._cube.width)).astype(np.float32)
            params = self._cube.decode(fold(self._cube, (seen.anchor + action)[None])[0])
            if not call.is_new(params) or not self._is_valid(params):
                continue
            vector = self._cube.encode(params)
            if vector is None:
                continue
            call.running.append(vector)
            counted = self._counting(observation, params)
            call.pending.append(
                Step(
                    digest=params_digest(params),
                    observation=counted,
                    action=action,
                    log_prob=self._learner.log_prob(counted, action),
                    value=value,
                    best=seen.best_loss,
                    unit=seen.unit,
                )
            )
            return params
        return None

    def _counting(self, observation: Observation, params: Params) -> Observation:
        """The observation, in which only what exists in the point counts: the probability of the
        point is that of those coordinates alone."""
        counted = observation.copy()
        table = counted[: -len(STUDY)].reshape(self._cube.width, len(COLUMNS))
        table[:, _COUNTS] = self._cube.existing(params)
        return counted
