"""Moments that another process can measure from, however the wall clock jumps meanwhile."""

import time
from typing import Any, Final

from targets.layout import boot_id

_BOOT: Final = boot_id()


def stamp() -> dict[str, Any]:
    """Now, by the machine's clock since it started and by the wall's."""
    return {"boot": _BOOT, "mono": time.clock_gettime(time.CLOCK_BOOTTIME), "wall": time.time()}


def elapsed_s(since: dict[str, Any]) -> float:
    """Seconds from a stamp until now; by the wall's clock only where the machine was restarted."""
    if since.get("boot") == _BOOT:
        return float(time.clock_gettime(time.CLOCK_BOOTTIME) - float(since["mono"]))
    return max(0.0, time.time() - float(since.get("wall", 0.0)))
