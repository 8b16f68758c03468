"""The witness is written beside commits, and its writer always ends."""

import threading
from pathlib import Path

from controller.witness import WitnessKeeper
from ledger.database import open_ledger


class _ClosedMeanwhile(threading.Event):
    """Whoever closes does so right after a wait for it has given up."""

    def __init__(self, closer: "WitnessKeeper") -> None:
        super().__init__()
        self._closer = closer

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        if not self.is_set():
            threading.Thread(target=self._closer.close, daemon=True).start()
            assert super().wait(10.0)
            assert self._closer._changed.wait(10.0)
            return False
        return True


def test_a_witness_closed_as_its_writer_stops_waiting_ends(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.db", create=True)
    keeper = WitnessKeeper(ledger, tmp_path)
    keeper._closing = _ClosedMeanwhile(keeper)
    keeper.note()
    writer = keeper._thread
    assert writer is not None
    writer.join(10.0)
    assert not writer.is_alive()
    assert list(tmp_path.glob("witness-*.json"))
    ledger.close()
