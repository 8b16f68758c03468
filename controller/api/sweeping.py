"""Takes away what requests left that nobody came back for: cut uploads, staged trees, old keys."""

import logging
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from controller.api.uploads import PART, drop_part
from controller.wiring import Service
from ledger import writes
from ledger.errors import ArlError

log = logging.getLogger("arl.api.sweeping")

UPLOADS_KEPT_S: Final = 24 * 3600.0
"""A part that nobody added to for so long is thrown away; so is a tree staged for a submission
that did not live to do it."""
KEYS_KEPT_S: Final = 30 * 24 * 3600.0
EVERY_S: Final = 3600.0


@contextmanager
def sweeping_beside(service: Service) -> Iterator[None]:
    """Sweeps now and each hour, until left."""
    stopping = threading.Event()

    def work() -> None:
        while True:
            try:
                sweep(service, now=time.time())
            except (ArlError, OSError) as error:  # the next hour may be better
                log.warning("uploads could not be swept: %s", error)
            if stopping.wait(EVERY_S):
                return

    thread = threading.Thread(target=work, name="arl-sweeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def sweep(service: Service, *, now: float) -> None:
    """What is older than it may be at `now`, seconds since the epoch. Never what is in progress:
    a part is locked while it is added to, and is as old as its last piece."""
    root = service.settings.home / "uploads"
    for part in old_parts(root, now):
        drop_part(part, before=now - UPLOADS_KEPT_S)
    for staged in old_staged(root, now):
        shutil.rmtree(staged, ignore_errors=True)
    with service.ledger.write() as session:
        writes.forget_idempotency_keys(session, before=now - KEYS_KEPT_S)


def old_parts(root: Path, now: float) -> list[Path]:
    """Cut uploads that nobody went on with."""
    return [p for p in root.glob(f"*/*{PART}") if _changed_at(p) < now - UPLOADS_KEPT_S]


def old_staged(root: Path, now: float) -> list[Path]:
    """Trees of submissions that did not live to use them."""
    return [p for p in root.glob("staged-*") if _changed_at(p) < now - UPLOADS_KEPT_S]


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # its submission ended just now
        return float("inf")
