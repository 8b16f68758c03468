"""`kill -9` at every change that is made for one outside trial, from its offer to its release."""

import signal
from functools import partial
from pathlib import Path

from targets.outside.records import Records
from targets.outside.target import OutsideTarget
from targets.protocol import AttemptSpec, Exit, ExitCause
from tests.acceptance import forked
from tests.acceptance.fault_points import install, read_journal
from tests.target_runs import attempt

LINES = [b'{"step": %d, "metric": "loss", "value": 0.5}\n' % step for step in range(2)]
LAST = {"step": 2, "metric": "loss", "value": 0.25}


def live(root: Path, spec: AttemptSpec) -> None:
    """One attempt, as its study's worker, the server and its own worker see it through. Whoever
    was killed in the middle of something does it again."""
    target, server = OutsideTarget(root), Records(root)
    name = target.launch(spec)
    assert server.claim(name, "client", "ab")
    for number, line in enumerate(LINES):
        with server.alone(name):
            server.hear(name, number, {"reports.jsonl": (line, 1000)})
    with server.alone(name):
        told = server.end(name, Exit(cause=ExitCause.EXITED, code=0), told=[LAST])
    assert told or (server.read(name).end or {})["told"] == [LAST]
    seen = target.observe(name, cursor="")
    assert [value.step for value in seen.values] == [0, 1, 2]
    assert seen.exit is not None
    assert (seen.exit.cause, seen.exit.code) == (ExitCause.EXITED, 0)
    target.release(name)
    target.close()


def die(at: int, journal: Path, root: Path, spec: AttemptSpec) -> None:
    install(at, journal)
    live(root, spec)


def test_a_kill_at_any_moment_of_an_outside_trial_is_survived(tmp_path: Path) -> None:
    killed = 0
    while True:
        root, spec = tmp_path / str(killed), attempt("", document={"trial": "t"})
        journal = tmp_path / f"journal-{killed}"

        code = forked.run(partial(die, killed + 1, journal, root, spec), tmp_path / "output")
        server = Records(root)
        if server.told_with("ab") is None or list(server.names()):
            live(root, spec)
        OutsideTarget(root).release(spec.name)
        left = [str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()]
        assert left == ["told/ab"], read_journal(journal)[0][-1]
        assert server.told_with("ab") == spec.name
        if code == 0:
            break
        assert code == -signal.SIGKILL, (tmp_path / "output").read_text()
        killed += 1
    points, missed = read_journal(journal)
    assert missed == []
    assert killed == len(points) >= 40
