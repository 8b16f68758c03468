"""Work for a pool of processes that takes longer than any test waits."""

import os
import time
from pathlib import Path


def stay(folder: str) -> None:
    (Path(folder) / f"{os.getpid()}.pid").touch()
    time.sleep(120)
