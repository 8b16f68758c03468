"""Slow work beside the loop: hashing a checkpoint must not hold up another study's trials."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger("arl.jobs")

PATIENCE_S: Final = 0.02
"""Work that is done within this time costs the loop nothing but the wait."""


def unattended(pool: Executor, work: Callable[..., None], *arguments: Any) -> None:
    """Run work that nobody waits for: what it fails with is at least in the log."""

    def tell(future: Future[None]) -> None:
        if error := future.exception():
            log.error("work beside the loop failed: %s", error, exc_info=error)

    pool.submit(work, *arguments).add_done_callback(tell)


class Jobs(Generic[T]):
    """Work by key, each done once. A crash forgets all of it: work must be safe to repeat."""

    def __init__(self, wake: Callable[[], None], *, threads: int = 2) -> None:
        self._wake = wake
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="arl-job")
        self._running: dict[str, Future[T]] = {}

    def result(self, key: str, work: Callable[[], T]) -> T | None:
        """What `work` gave, or None while it runs; the loop is woken when it is done. Raises
        what `work` raised. Once given, a result is forgotten."""
        future = self._running.get(key)
        if future is None:
            future = self._running[key] = self._pool.submit(work)
            wait([future], PATIENCE_S)
            if not future.done():
                future.add_done_callback(lambda _: self._wake())
        if not future.done():
            return None
        del self._running[key]
        return future.result()

    def take(self, key: str) -> T | None:
        """The result of work that was begun, as `result` gives it; None while it runs."""
        future = self._running.get(key)
        if future is None or not future.done():
            return None
        del self._running[key]
        return future.result()

    def forget(self, key: str) -> None:
        """Whatever it gives is thrown away."""
        future = self._running.pop(key, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """Wait for what is running; nothing new is taken."""
        self._pool.shutdown(wait=True)
