"""Asks a served model many prompts at once, and measures how long it takes."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

from controller.serving.endpoint import Completion, Endpoint
from controller.serving.faults import EndpointUnavailable
from controller.serving.frozen_scorer import Questions

TRIES: Final = 3
TELL_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How."""

    parallel: int
    timeout_s: float
    """Of one answer, from the first byte sent to the last one received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What came back, in the order of the prompts."""

    answers: tuple[tuple[tuple[str, bool], ...], ...]
    latencies_s: tuple[float, ...]
    tokens: int
    wall_s: float


class _Stopped(Exception):
    """Another thread failed, so the rest need not be asked."""


class Interview:
    """One model asked one list of prompts."""

    def __init__(
        self,
        connect: Callable[[], Endpoint],
        model: str,
        asking: Asking,
        say: Callable[[str], None],
    ) -> None:
        """`connect` makes a connection of its own: where one answer fails the others are cut."""
        self._endpoint, self._model, self._asking, self._say = connect(), model, asking, say
        self._stopped = threading.Event()

    def ask(self, questions: Questions) -> Asked:
        """Raises EndpointUnavailable, EndpointRefuses: a prompt has no answer after TRIES tries,
        or the server is not well any more."""
        prompts = questions.prompts
        started = time.monotonic()
        pool = ThreadPoolExecutor(self._asking.parallel, thread_name_prefix="arl-ask")
        try:
            self._answer(questions, prompts[0])  # the first request of a server is slow
            started = time.monotonic()
            futures = [pool.submit(self._answer, questions, prompt) for prompt in prompts]
            self._wait(futures)
            found = [future.result() for future in futures]
        except BaseException:
            self._stopped.set()
            self._endpoint.abort()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            self._endpoint.close()
        return Asked(
            answers=tuple(completion.texts for completion, _ in found),
            latencies_s=tuple(latency_s for _, latency_s in found),
            tokens=sum(completion.tokens for completion, _ in found),
            wall_s=time.monotonic() - started,
        )

    def _wait(self, futures: Sequence[Future[tuple[Completion, float]]]) -> None:
        left = set(futures)
        while left:
            done, left = wait(left, timeout=TELL_S, return_when=FIRST_EXCEPTION)
            for future in done:
                if (error := future.exception()) is not None:
                    raise error
            if left:
                count = len(futures)
                self._say(f"{self._model}: {count - len(left)} of {count} items answered")

    def _answer(self, questions: Questions, prompt: str) -> tuple[Completion, float]:
        for left in reversed(range(TRIES)):
            if self._stopped.is_set():
                raise _Stopped
            started = time.monotonic()
            try:
                completion = self._endpoint.complete(
                    self._model, prompt, questions.settings, timeout_s=self._asking.timeout_s
                )
            except EndpointUnavailable:
                if not left or not self._endpoint.is_well():
                    raise
            else:
                return completion, time.monotonic() - started
        raise AssertionError("the last try returns or raises")


def merged(parts: Sequence[Asked]) -> Asked:
    """Several lists as one."""
    return Asked(
        answers=tuple(answer for part in parts for answer in part.answers),
        latencies_s=tuple(latency for part in parts for latency in part.latencies_s),
        tokens=sum(part.tokens for part in parts),
        wall_s=sum(part.wall_s for part in parts),
    )


def measured(asked: Asked) -> dict[str, float]:
    """Latencies of whole answers and the rate of all together."""
    return {
        "answers": float(len(asked.latencies_s)),
        "latency_p50_s": quantile(asked.latencies_s, 0.5),
        "latency_p95_s": quantile(asked.latencies_s, 0.95),
        "tokens": float(asked.tokens),
        "tokens_per_s": asked.tokens / asked.wall_s if asked.wall_s > 0 else 0.0,
        "wall_s": asked.wall_s,
    }


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
