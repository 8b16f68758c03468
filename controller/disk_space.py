"""How much of a disk stays free, and where that is looked at."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_UNITS: Final[Mapping[str, int]] = {
    "": 1,
    "b": 1,
    **{f"{p}b": 1000**n for n, p in enumerate("kmgt", start=1)},
    **{f"{p}ib": 1024**n for n, p in enumerate("kmgt", start=1)},
}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_GIB: Final = 1 << 30
REMEDY: Final = "write a size like 2GiB, or a share of the disk like 5%"


@dataclass(frozen=True, slots=True)
class MinFree:
    """What of a disk trials leave free."""

    size_bytes: int = 0
    share: float = 0.0
    """Of the whole disk, from 0 to 1; counts where no size is given."""

    def of(self, total_bytes: int) -> int:
        return self.size_bytes or int(self.share * total_bytes)


def parse_min_free(text: str) -> MinFree:
    """Raises ValueError."""
    share = _SHARE.fullmatch(text.strip())
    if share is not None and 0 < float(share[1]) < 100:
        return MinFree(share=float(share[1]) / 100)
    size = _SIZE.fullmatch(text.strip())
    factor = _UNITS.get(size[2].lower()) if size is not None else None
    if size is not None and factor is not None and float(size[1]) * factor >= 1:
        return MinFree(size_bytes=int(float(size[1]) * factor))
    raise ValueError(REMEDY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One file system that ARL writes to, as it is now."""

    holds: str
    """What of ARL's is on it, for people."""
    place: Path
    total_bytes: int
    free_bytes: int
    min_free_bytes: int

    @property
    def is_low(self) -> bool:
        return self.free_bytes < self.min_free_bytes

    @property
    def enough_bytes(self) -> int:
        """So much has to be free until it is not low any more: a little more than the limit, so
        that a study does not stop and go."""
        low = self.min_free_bytes
        return max(low, min(low + low // 4, low + _GIB, (low + self.total_bytes) // 2))


def read_disks(home: Path, ledger_file: Path | None, min_free: MinFree) -> list[Disk]:
    """The artifacts' disk, and the ledger's where that is another one on this machine."""
    disks = [_disk("artifacts and attempts", home, min_free)]
    if ledger_file is not None:
        place = _existing(ledger_file.parent)
        if place.stat().st_dev != _existing(home).stat().st_dev:
            disks.append(_disk("the ledger", place, min_free))
    return disks


def _existing(place: Path) -> Path:
    while not place.exists():
        place = place.parent
    return place


def _disk(holds: str, place: Path, min_free: MinFree) -> Disk:
    place = _existing(place)
    usage = shutil.disk_usage(place)
    return Disk(
        holds=holds,
        place=place,
        total_bytes=usage.total,
        free_bytes=usage.free,
        min_free_bytes=min_free.of(usage.total),
    )
