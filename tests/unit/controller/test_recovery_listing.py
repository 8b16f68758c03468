"""What a worker that starts makes of targets that cannot say what they have."""

from collections.abc import Sequence
from typing import Any

import pytest

from controller.worker.recovery import _listed
from ledger.errors import ArlError, DiskFull, TargetUnavailable
from targets.protocol import Found


class Shelf:
    name = "local"

    def __init__(self, has: Sequence[str], error: ArlError | None = None) -> None:
        self._has = has
        self._error = error

    def list_owned(self, owner: str) -> Sequence[Found]:
        if self._error is not None:
            raise self._error
        return [Found(handle=name, name=name, running=True) for name in self._has]


@pytest.mark.parametrize("error", [TargetUnavailable("away"), DiskFull("no space left")])
def test_a_target_that_cannot_say_what_it_has_keeps_no_worker_from_starting(
    error: ArlError,
) -> None:
    here: Any = Shelf(["arl-s-1"])
    away: Any = Shelf([], error)
    found, missing = _listed([away, here], "ledger-1")
    assert [one.name for _, one in found] == ["arl-s-1"]
    assert missing == [away]
