"""Starts the ranks of a program that trains in several processes, and ends with them.

Standard library only: the process that a target started stays small, waits, and says in one line
what ended them. Ranks that `torchrun` or `accelerate launch` started, on a cluster, are taken as
they are: `is_rank` knows them by the same variables.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inner_trials import contract

RENDEZVOUS: Final = "ARL_RENDEZVOUS"
"""A file that the ranks of one machine find each other by. A port could be taken by another trial
between its choice and its use."""
GRACE_S: Final = 5.0
"""After a rank that failed perhaps only because another did, what that one gets to say so."""
_PAUSE_S: Final = 0.05
_WELL: Final = (0, contract.EXIT_STOPPED)
_UNSURE: Final = (1, contract.EXIT_RANK_LOST)
_TAIL_BYTES: Final = 4_000


@dataclass(frozen=True, slots=True)
class _Rank:
    number: int
    process: "subprocess.Popen[bytes]"
    log: Path | None
    """Of what it wrote to stderr; rank 0's is the program's own."""


def is_rank() -> bool:
    """Whether this process is one of several, whoever started it."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def visible_gpus() -> int:
    """How many GPUs the target gave this trial, without asking a driver."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return len([name for name in named.split(",") if name.strip()])


def launch(program: str, count: int, scratch: Path) -> int:
    """Be `count` ranks of `inner_trials.PROGRAM`; returns the exit status of all of them.

    When one fails the others are ended, within GRACE_S, and its status is returned: those of the
    contract as they are, EXIT_RANK_LOST for one that a signal ended.
    """
    ranks = [_start(program, number, count, scratch) for number in range(count)]
    try:
        return _verdict(program, ranks, _wait(ranks))
    finally:
        _end(ranks)


def _start(program: str, number: int, count: int, scratch: Path) -> _Rank:
    argv = [sys.executable, "-P", "-m", f"inner_trials.{program}"]
    environment = {**os.environ, **_environment(number, count, scratch)}
    if number == 0:
        return _Rank(number, subprocess.Popen(argv, env=environment), None)
    log = scratch / f"rank-{number}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=file)
    return _Rank(number, process, log)


def _environment(number: int, count: int, scratch: Path) -> Mapping[str, str]:
    """What torch and accelerate read in every rank. All traffic stays on the loopback."""
    return {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo"),
        RENDEZVOUS: str(scratch / "rendezvous"),
    }


def _wait(ranks: list[_Rank]) -> dict[int, int]:
    """The status of each rank that ended by itself, by its number, in the order they ended."""
    statuses: dict[int, int] = {}
    deadline: float | None = None
    while len(statuses) < len(ranks):
        for rank in ranks:
            status = rank.process.poll()
            if status is None or rank.number in statuses:
                continue
            statuses[rank.number] = status
            if status not in _WELL and deadline is None:
                deadline = time.monotonic() + (GRACE_S if status in _UNSURE else 0.0)
        if deadline is not None and time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)
    return statuses


def _verdict(program: str, ranks: list[_Rank], statuses: Mapping[int, int]) -> int:
    failed = {number: status for number, status in statuses.items() if status not in _WELL}
    if not failed:
        return statuses[0]
    # The others fail because one did: whom a signal ended was first, and one that only lost the
    # others was not.
    number = min(failed, key=lambda n: (failed[n] == contract.EXIT_RANK_LOST, failed[n] > 0))
    status = failed[number]
    _show_log(ranks[number])
    if status > 0 and status != contract.EXIT_RANK_LOST:
        return status
    ended = f"was ended by {signal.Signals(-status).name}" if status < 0 else "lost the others"
    print(
        f"{program}: rank {number} of {len(ranks)} {ended}, so that the others were ended too; if"
        " memory was short, use more ranks (data_parallel) or a smaller"
        " per_device_train_batch_size",
        file=sys.stderr,
        flush=True,
    )
    return contract.EXIT_RANK_LOST


def _show_log(rank: _Rank) -> None:
    if rank.log is None:
        return
    tail = rank.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
    if tail:
        print(f"rank {rank.number} wrote:\n{tail}", file=sys.stderr, flush=True)


def _end(ranks: list[_Rank]) -> None:
    for rank in ranks:
        if rank.process.poll() is None:
            rank.process.kill()
    for rank in ranks:
        rank.process.wait()
