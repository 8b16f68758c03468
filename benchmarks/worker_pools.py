"""Pools of worker processes that end with the process that made them, however that one ends."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, connection, get_context, parent_process


@contextmanager
def worker_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh interpreters; when the block is left by an error or Ctrl-C, their work is dropped."""
    others = active_children()
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=end_with_parent
    ) as pool:
        try:
            yield pool
        except BaseException:
            # Leaving the pool would wait for all that was submitted.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                if process not in others:
                    process.terminate()
            raise


def end_with_parent() -> None:
    """Initializer of a worker process: a parent that is killed tells nobody."""
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
