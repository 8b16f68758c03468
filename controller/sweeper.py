"""Takes away what retention let go, beside the loop, once nobody relied on it for a while."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from ledger.artifacts import ArtifactStore
from ledger.database import Ledger
from ledger.errors import ArlError
from ledger.saved_reads import find_release
from ledger.unneeded import discard, find_unneeded
from ledger.witness import check_alone
from targets.kept_logs import KeptLog, cut, find_cuts, kept_logs, log_folders

log = logging.getLogger("arl.sweeper")

EVERY_S: Final = 60.0


class Sweeper:
    """Of one process. What a killed one left undone the next one does: it begins by looking."""

    def __init__(
        self,
        ledger: Ledger,
        store: ArtifactStore,
        home: Path,
        submit: Callable[[Callable[[], None]], None],
    ) -> None:
        """`submit` runs work beside the loop, piece after piece."""
        self._ledger = ledger
        self._store = store
        self._home = home
        self._submit = submit
        self._is_pending = True
        self._is_running = threading.Event()
        self._next_at = 0.0

    def let_go(self) -> None:
        """Something was let go, and that is committed."""
        self._is_pending = True

    def turn(self) -> None:
        """Called often: now and then, while something waits to go, it looks."""
        now = time.monotonic()
        if not self._is_pending or now < self._next_at or self._is_running.is_set():
            return
        self._next_at = now + EVERY_S
        self._is_running.set()
        self._submit(self._sweep)

    def cap_logs(self, trials: Collection[str], limit_bytes: int) -> None:
        """Cut what these trials said, once what their attempts left is where it stays."""
        wanted = frozenset(trials)
        self._submit(lambda: cap_logs(self._home, wanted, limit_bytes))

    def _sweep(self) -> None:
        self._is_pending = False
        try:
            check_alone(self._home, self._ledger.id, self._ledger.address)
            with self._ledger.read() as session:
                found = find_unneeded(session, self._store, orphans=False)
            freed = discard(self._store, found)
            if freed:
                log.info("%d bytes that retention let go of are free", freed)
            self._is_pending = self._is_pending or any(one.wait_s > 0 for one in found)
        except (ArlError, OSError) as error:
            log.warning("what was let go is taken away later: %s", error)
            self._is_pending = True
        finally:
            self._is_running.clear()


def cap_logs(home: Path, trials: Collection[str], limit_bytes: int) -> None:
    """Cut each trial's logs, on this machine, to so many bytes."""
    try:
        for folder in log_folders(str(home)):
            of_trial: dict[str, list[KeptLog]] = {}
            for kept in kept_logs(folder, trials):
                of_trial.setdefault(kept.owner, []).append(kept)
            for logs in of_trial.values():
                for found in find_cuts(logs, limit_bytes):
                    cut(found)
    except OSError as error:
        log.warning("logs are cut later: %s", error)


def release_words(ledger: Ledger, digest: str) -> str | None:
    """Why a tree is not there that trials left; None where none of them let it go."""
    with ledger.read() as session:
        found = find_release(session, digest)
    if found is None:
        return None
    moment = time.strftime("%Y-%m-%d", time.gmtime(found.released_at or 0.0))
    return (
        f"artifact {digest[:12]} of trial {found.trial_id} was let go by retention on {moment} "
        f"({found.release_policy}: {str(found.release_reason).replace('_', ' ')})"
    )
