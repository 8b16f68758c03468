"""Bounded asynchrony: actors sample what comes next while the trainer learns from what came.

The trainer's order of prompts is known, so each is begun early, with the newest weights there
are, but not before its completions are sure to be young enough when they are used: none is thrown
away for its age. At most `staleness_bound` updates lie between the weights that sampled and those
that are updated; the correction of the program reconciles the two (as in Hilton et al. 2022, the
sampling policy is one, the one that is clipped against another).
"""

import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from inner_trials.actors import AdapterActors, Sample, for_trl
from inner_trials.failures import ActorsLost
from inner_trials.rollout_server import Server
from inner_trials.settings import SettingsError

AT_ONCE: Final = 64
"""The most prompts that are sampled side by side."""
Prompts = list[list[int]]


@dataclass(slots=True)
class _Batch:
    """What one generation of the trainer will ask for."""

    prompts: Prompts
    found: list[tuple[int, list[Sample]] | None]
    """By prompt: the version that sampled, and its completions."""


class AheadActors(AdapterActors):
    """As AdapterActors, with prompts of up to `lead` further generations under way."""

    def __init__(
        self,
        server: Server,
        folder: Path,
        sampling: Mapping[str, Any],
        *,
        row_tokens: int,
        bound: int,
        cycle: int,
    ) -> None:
        """`cycle` updates are made from one generation; `bound` is at least as many."""
        super().__init__(server, folder, sampling, row_tokens=row_tokens)
        self._bound, self._cycle, self._lead = bound, cycle, bound // cycle
        self._upcoming: Iterator[Prompts] = iter(())
        self._changed = threading.Condition()
        self._batches: deque[_Batch] = deque()
        self._todo: deque[tuple[_Batch, int]] = deque()
        self._in_use: Counter[int] = Counter()
        """Requests that are under way, by version."""
        self._held: set[int] = set()
        """Versions that the server has."""
        self._failure: Exception | None = None
        self._threads: list[threading.Thread] = []
        self._count = 1

    def expect(self, encoded: Sequence[list[int]]) -> None:
        """The trainer will ask for these prompts, by the number in its data's column `row`."""
        self._upcoming = in_order(self._trainer, encoded, cycle=self._cycle)

    def _replaced(self, version: int) -> None:
        self._held.add(self.version)
        with self._changed:
            done = [v for v in self._held if v != self.version and not self._in_use[v]]
        for old in done:
            self.forget(old)
            self._held.discard(old)

    def generate(
        self, prompts: Sequence[list[int]], images: Any, num_generations: int, profiler: Any
    ) -> tuple[None, list[list[int]], list[list[list[float | None]]], None]:
        self._count = num_generations
        asked = list(prompts[::num_generations])
        with profiler:
            batch = self._begun(asked)
            self._server.wait_for(lambda seconds: self._is_done(batch, seconds))
        if self._failure is not None:
            raise self._failure
        found = [each for each in batch.found if each is not None]
        self.sampled_at = [version for version, samples in found for _ in samples]
        age = int(self._trainer.state.global_step) - min(self.sampled_at)
        if age > self._bound:
            raise ActorsLost(
                f"the rollout server has weights that are {age} updates old, and staleness_bound"
                f" is {self._bound}: they do not reach it"
            )
        return for_trl([sample for _, samples in found for sample in samples])

    def _is_done(self, batch: _Batch, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(
                lambda: self._failure is not None or None not in batch.found, seconds
            )

    def _begun(self, asked: Prompts) -> _Batch:
        """The batch of these prompts, once it and those that may be begun now are."""
        self.dropped = 0
        with self._changed:
            self._begin(self._lead + 1)
            if not self._batches or self._batches[0].prompts != asked:
                self._start_over(asked)
            batch = self._batches.popleft()
            self._changed.notify_all()
        for _ in range(len(self._threads), min(len(asked), AT_ONCE)):
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()
        return batch

    def _begin(self, many: int) -> None:
        for prompts in islice(self._upcoming, max(0, many - len(self._batches))):
            self._add(prompts)

    def _add(self, prompts: Prompts) -> None:
        batch = _Batch(prompts, [None] * len(prompts))
        self._batches.append(batch)
        self._todo.extend((batch, at) for at in range(len(prompts)))

    def _start_over(self, asked: Prompts) -> None:
        """Something else is asked for than was expected: go on from there."""
        self.dropped = sum(len(batch.prompts) for batch in self._batches) * self._count
        self._batches.clear()
        self._todo.clear()
        self._add(asked)
        self._begin(self._lead + 1)

    def _work(self) -> None:
        """Be one of the threads that ask; the first failure is everybody's."""
        try:
            while True:
                batch, at, version = self._next()
                body = self.request(version, [batch.prompts[at]], self._count)
                samples = self.read(body, self._server.post("/v1/completions", body))
                with self._changed:
                    batch.found[at] = (version, samples)
                    self._in_use[version] -= 1
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001  # it is raised where the trainer waits
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _next(self) -> tuple[_Batch, int, int]:
        with self._changed:
            self._changed.wait_for(lambda: self._todo)
            batch, at = self._todo.popleft()
            self._in_use[self.version] += 1
            return batch, at, self.version

    def close(self) -> None:
        for version in self._held:
            with suppress(ActorsLost, SettingsError):
                self.forget(version)


def in_order(trainer: Any, encoded: Sequence[list[int]], *, cycle: int) -> Iterator[Prompts]:
    """The tokens of the prompts of each generation that a TRL trainer is still to make, in the
    order of its own sampler. Its state counts when the first is asked for."""
    from trl.trainer.utils import RepeatSampler

    arguments, data = trainer.args, trainer.train_dataset
    rows = list(data["row"])
    size = arguments.generation_batch_size // trainer.num_generations
    order = RepeatSampler(data, 1, size, shuffle=trainer.shuffle_dataset, seed=arguments.seed)
    done = trainer.state.global_step // cycle
    left = -(-(arguments.max_steps - trainer.state.global_step) // cycle)
    # A trainer that goes on begins its epoch's order anew, and skips what it has used of it.
    skipped = done % (len(rows) // size)

    def endless() -> Iterator[Prompts]:
        while True:
            indices = list(order)
            for start in range(0, len(indices), size):
                yield [encoded[rows[index]] for index in indices[start : start + size]]

    yield from islice(endless(), skipped, skipped + left)
