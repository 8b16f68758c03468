"""Random programs and random kills of everything around them: each attempt ends exactly once."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from targets import layout
from targets.local_process import LocalProcessTarget
from targets.protocol import ExitCause
from tests.target_runs import (
    attempt,
    end_supervisor,
    local_target,
    processes_marked,
    supervisor_pid,
)

DURATION_S = 8.0
IN_FLIGHT = 10
PROGRAMS = {
    "exit 0": 0,
    "sleep 0.05; exit 3": 3,
    "setsid sleep 60 & exit 1": 1,
    "(setsid sleep 61 &); sleep 0.2; exit 4": 4,
    "kill -SEGV $$": -signal.SIGSEGV,
    "sleep 60": None,
    "trap '' TERM; setsid sleep 60 & sleep 60; sleep 60": None,
}
"""Each with the exit code it has when nothing happens to it."""


def disturb(target: LocalProcessTarget, live: list[str], chance: random.Random) -> None:
    """Now and then kill or stop something, or its subreaper, or the supervisor."""
    draw, victim = chance.random(), chance.choice(live)
    with suppress(ProcessLookupError):
        if draw < 0.05:
            target.kill(victim)
        elif draw < 0.08:
            target.request_stop(victim)
        elif draw < 0.11:
            facts = layout.read_record(f"{target._root}/{layout.ATTEMPTS}/{victim}") or {}
            os.kill(facts["subreaper"][0], signal.SIGKILL)
        elif draw < 0.13:
            os.kill(supervisor_pid(target), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_doubled_or_left_running_in_chaos(tmp_path: Path, seed: int) -> None:
    chance, mark = random.Random(seed), f"ARL_TEST_CHAOS={seed}"
    target = local_target(tmp_path)
    live: dict[str, str] = {}
    launched, ended = 0, 0
    until = time.monotonic() + DURATION_S
    while live or time.monotonic() < until:
        while len(live) < IN_FLIGHT and time.monotonic() < until:
            script = chance.choice(list(PROGRAMS))
            limits = {"timeout_s": chance.choice([0.3, 1.5, 5.0])}
            live[target.launch(attempt(f"export {mark}; {script}", limits=limits))] = script
            launched += 1
        if live and time.monotonic() < until:
            disturb(target, list(live), chance)
        assert time.monotonic() < until + 30, f"these never ended: {live}"
        for handle in target.wait(set(live), 0.3):
            seen = target.observe(handle, cursor="")
            if seen.exit is None:
                continue
            if seen.exit.cause is ExitCause.EXITED:
                assert seen.exit.code == PROGRAMS[live[handle]]
            assert target.observe(handle, cursor="").exit == seen.exit
            del live[handle]
            ended += 1
            target.release(handle)
    assert launched == ended > 50
    assert processes_marked(mark) == []
    assert not target.list_owned("ledger-1")
    target.close()
    end_supervisor(Path(target._root))
    assert os.listdir(Path(target._root, layout.ATTEMPTS)) == []
    assert os.listdir(Path(target._root, layout.TRASH)) == []
