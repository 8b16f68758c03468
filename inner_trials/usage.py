"""What a program has used so far: its memory at the highest, and the time since it began."""

import os
import resource
import sys
import time
from pathlib import Path
from typing import Final

_START_FIELD: Final = 19
"""Of /proc/PID/stat, counted after the program's name: ticks from boot to the start."""


def memory() -> dict[str, float]:
    """`run/peak_memory_bytes`, and `run/peak_gpu_bytes` where a GPU is in use."""
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {"run/peak_memory_bytes": peak_kib * 1024.0}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        found["run/peak_gpu_bytes"] = float(torch.cuda.max_memory_allocated())
    return found


def process_age_s() -> float:
    """Seconds since this process was started, imports included."""
    after_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2]
    ticks = int(after_name.split()[_START_FIELD])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
