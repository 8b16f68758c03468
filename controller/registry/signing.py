"""Signs promotions as they are made, beside whoever drives the studies."""

import logging
import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from controller.jobs import unattended
from controller.registry.keys import has_libraries
from controller.registry.making import make_evidence
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger
from ledger.errors import ArlError
from ledger.records import Incumbent
from ledger.registry_reads import PromotionSignature, find_sealed, unsigned_promotions

log = logging.getLogger("arl.registry")

ACTOR: Final = "worker"


def sign_unsigned(
    ledger: Ledger, store: ArtifactStore, home: Path, studies: Collection[str] | None = None
) -> list[PromotionSignature]:
    """Sign the promotions of these studies (default: of all) that nobody signed yet and whose
    lineage is recorded. What cannot be signed is warned of and left: `arl evidence` says why."""
    if not has_libraries():
        return []
    made: list[PromotionSignature] = []
    for pointer in _waiting(ledger, studies):
        try:
            made.append(make_evidence(ledger, store, home, pointer, ACTOR))
        except ArlError as error:
            log.warning("%s:%d is not signed: %s", pointer.model, pointer.seq, error)
    return made


def _waiting(ledger: Ledger, studies: Collection[str] | None) -> list[Incumbent]:
    with ledger.read() as session:
        found = [
            pointer
            for pointer in unsigned_promotions(session)
            if studies is None or pointer.study_id in studies
        ]
        sealed = ((pointer, find_sealed(session, pointer)) for pointer in found)
        return [pointer for pointer, entry in sealed if entry is not None and entry.entry.lineage]


class Signer:
    """Signs in a thread of its own, one promotion after the other; a crash forgets what waits,
    and the next worker finds it again."""

    def __init__(self, ledger: Ledger, store: ArtifactStore, home: Path) -> None:
        self._work = (ledger, store, home)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="arl-signer")
        self._waits = threading.Event()

    def look(self) -> None:
        """Sign what is unsigned, soon. Called often, it looks once for all that came meanwhile."""
        if not self._waits.is_set():
            self._waits.set()
            unattended(self._pool, self._sign)

    def _sign(self) -> None:
        self._waits.clear()
        try:
            sign_unsigned(*self._work)
        except ArlError as error:
            log.warning("promotions could not be looked at: %s", error)

    def close(self) -> None:
        """Finish what was asked for."""
        self._pool.shutdown(wait=True)
