"""What plots remember of a study's finished trials, and its form as bytes."""

import json
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from controller.plots.arms import Arm, Arms
from controller.plots.history import Summary
from ledger.plot_reads import FinishedColumns

_COLUMNS: Final = ("finish", "number", "outcome", "value")
_SUMMED: Final = ("valued", "other", "extremes")


@dataclass(slots=True)
class Remembered:
    """All of it follows from the trials that ended, and only grows with them."""

    summary: Summary
    arms: Arms
    columns: FinishedColumns = field(default_factory=FinishedColumns)
    ordered: "array[float]" = field(default_factory=lambda: array("d"))
    """Every finite value, the least first."""

    @property
    def size(self) -> int:
        """Trials that were counted, for whatever plot."""
        return len(self.columns) + self.arms.seen + len(self.ordered)


def remembered(*, maximize: bool) -> Remembered:
    """Of no trial yet."""
    return Remembered(Summary(maximize=maximize), Arms(maximize=maximize))


def to_bytes(known: Remembered) -> bytes:
    """For this machine: arrays are written as they lie in memory."""
    arrays: list[array[Any]] = [getattr(known.columns, name) for name in _COLUMNS]
    arrays += [getattr(known.summary, name) for name in _SUMMED]
    arrays.append(known.ordered)
    for arm in known.arms.arms.values():
        arrays += [arm.finish, arm.mean]
    summary, arms = known.summary, known.arms
    head = {
        "maximize": summary.maximize,
        "seen": summary.seen,
        "lists": [summary.best, summary.kept, summary.top],
        "arms": [arms.seen, arms.best, arms.steps],
        "each": {name: _arm_head(arm) for name, arm in arms.arms.items()},
        "arrays": [[part.typecode, len(part)] for part in arrays],
    }
    body = b"\n".join([json.dumps(head).encode(), b"".join(part.tobytes() for part in arrays)])
    return zlib.crc32(body).to_bytes(4, "big") + body


def _arm_head(arm: Arm) -> list[Any]:
    return [
        arm.counts,
        arm.improved,
        arm.best,
        arm.valued,
        arm.window,
        arm.block,
        arm.open,
    ]


def from_bytes(data: bytes) -> Remembered:
    """Raises ValueError where they are not what was written."""
    body = memoryview(data)[4:]
    if zlib.crc32(body).to_bytes(4, "big") != data[:4]:
        raise ValueError("the sums of plots are damaged")
    end = data.index(b"\n", 4)
    head = json.loads(data[4:end])
    arrays = iter(_arrays(head["arrays"], memoryview(data)[end + 1 :]))
    columns = FinishedColumns(*(next(arrays) for _ in _COLUMNS))
    summed = {name: next(arrays) for name in _SUMMED}
    best, kept, top = head["lists"]
    summary = Summary(
        maximize=head["maximize"], seen=head["seen"], best=best, kept=kept, top=top, **summed
    )
    ordered = next(arrays)
    seen, best_of_all, steps = head["arms"]
    each = _arms(head["each"], arrays)
    arms = Arms(maximize=head["maximize"], seen=seen, best=best_of_all, steps=steps, arms=each)
    return Remembered(summary, arms, columns, ordered)


def _arrays(written: list[tuple[str, int]], body: memoryview) -> list["array[Any]"]:
    found, at = [], 0
    for code, length in written:
        part = array(code)
        end = at + length * part.itemsize
        part.frombytes(body[at:end])
        found.append(part)
        at = end
    return found


def _arms(heads: Mapping[str, Any], arrays: Any) -> dict[str, Arm]:
    found = {}
    for name, (counts, improved, best, valued, window, block, open_) in heads.items():
        found[name] = Arm(
            counts=counts,
            improved=improved,
            best=best,
            valued=valued,
            window=window,
            block=block,
            finish=next(arrays),
            mean=next(arrays),
            open=open_,
        )
    return found
