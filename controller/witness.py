"""Keeps the ledger's witness current, and refuses a ledger that was put back to an older state."""

import logging
import threading
from pathlib import Path
from typing import Final

from controller.settings import Settings
from ledger.database import Ledger
from ledger.errors import ArlError, LedgerRestored
from ledger.heads import read_heads
from ledger.witness import Missing, find_missing, read_witness, witness_path, write_witness

log = logging.getLogger("arl.witness")

EVERY_S: Final = 1.0


class WitnessKeeper:
    """Writes the witness beside whatever commits: soon after, and never on its way."""

    def __init__(self, ledger: Ledger, home: Path) -> None:
        self._ledger = ledger
        self._path = witness_path(home, ledger.id)
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        ledger.on_commit = self.note

    def note(self) -> None:
        """Something was committed. Costs no more than a flag."""
        self._changed.set()
        if self._thread is None or not self._thread.is_alive():  # a fork has none
            self._thread = threading.Thread(target=self._keep, name="arl-witness", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write what is not written yet."""
        self._closing.set()
        self._changed.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        while True:
            self._changed.wait()
            self._closing.wait(EVERY_S)
            self._changed.clear()
            # Asked only now: whoever closes later sets `_changed` again, and it is not lost.
            is_last = self._closing.is_set()
            self._write()
            if is_last:
                return

    def _write(self) -> None:
        try:
            with self._ledger.read() as session:
                write_witness(session, self._path)
        except (ArlError, OSError) as error:
            log.debug("the witness is written later: %s", error)


def missing_from(ledger: Ledger, settings: Settings) -> Missing | None:
    """What the ledger held once and does not hold now."""
    witness = read_witness(witness_path(settings.home, ledger.id))
    heads = read_heads(settings.heads_path)
    with ledger.read() as session:
        return find_missing(session, witness, heads)


def check_not_restored(ledger: Ledger, settings: Settings) -> None:
    """Raises LedgerRestored."""
    found = missing_from(ledger, settings)
    if found is not None:
        raise LedgerRestored(describe(ledger, found))


def describe(ledger: Ledger, found: Missing) -> str:
    lost = found.witnessed - found.held
    return (
        f"{ledger.where} holds {found.held} entries and held {found.witnessed} before: an older "
        f"copy was put in its place, and {lost} entries are missing, with what they recorded "
        "(trials, promotions, holdout uses, revoked tokens). Put the newer copy back; or, if it "
        "is lost, stop every worker and server and run `arl db accept-restore`"
    )
