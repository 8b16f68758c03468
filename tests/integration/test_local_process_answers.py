"""`answers` mode on the local target: two programs, one conversation, nothing else shared."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from targets import layout
from targets.local_process import LocalProcessTarget
from targets.protocol import ExitCause, Program
from tests.target_runs import (
    ANSWERER,
    EVALUATOR,
    end_supervisor,
    evaluate,
    local_target,
    log_of,
    processes_marked,
    python,
    shell,
)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def target(tmp_path: Path, store: ArtifactStore) -> Iterator[LocalProcessTarget]:
    made = local_target(tmp_path, store)
    yield made
    made.close()
    end_supervisor(tmp_path / "attempts-root")


def test_the_candidate_answers_what_the_evaluator_asks(target: LocalProcessTarget) -> None:
    ended = evaluate(target, python(ANSWERER))
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert target.score(ended.handle) == b'{"right": 5}'
    assert log_of(target, ended.handle) == ""
    log = Path(target._root, layout.ATTEMPTS, ended.handle, layout.ANSWERER_LOG)
    assert log.read_text() == "loading\n"
    target.release(ended.handle)
    assert list(Path(target._root, layout.ATTEMPTS).iterdir()) == []


def test_both_are_ended_when_the_evaluator_is_done(target: LocalProcessTarget) -> None:
    mark = "ARL_TEST_ANSWERER=stays"
    answerer = shell(f"export {mark}; setsid sleep 60 & sleep 61")
    ended = evaluate(target, answerer, "import time; time.sleep(0.3)")
    assert ended.exit.code == 0
    assert ended.exit.wall_s < 10
    assert processes_marked(mark) == []


def test_an_answerer_that_dies_is_seen_by_the_evaluator(target: LocalProcessTarget) -> None:
    ended = evaluate(target, shell("exit 1"), EVALUATOR)
    assert ended.exit.code == 1
    assert "BrokenPipe" in log_of(target, ended.handle) or not target.score(ended.handle)


def test_an_answerer_that_cannot_start_fails_the_launch_by_name(
    target: LocalProcessTarget,
) -> None:
    ended = evaluate(target, Program(argv=("no-such-candidate",), python="python"))
    assert ended.exit.cause is ExitCause.LAUNCH_FAILED
    assert "no-such-candidate" in ended.exit.detail


def test_the_answerer_sees_its_own_inputs_and_none_of_the_evaluators(
    target: LocalProcessTarget, store: ArtifactStore, tmp_path: Path
) -> None:
    trees = {}
    for name in ("labels", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        trees[name] = store.put_tree(tmp_path / name)
    code = (
        "import os, sys; sys.stdin.readline(); e = os.environ; "
        "print(sorted(os.listdir(e['ARL_INPUTS'])), open('file').read(), "
        "sorted(n for n in e if n.startswith('ARL_')), e['HOME'] == e['TMPDIR'], e['HOME'])"
    )
    evaluator = (
        "import os\nos.write(4, b'x\\n')\nprint(os.fdopen(5).readline(), end='')\n"
        "print(os.environ['HOME'])"
    )
    answerer = Program(
        argv=("{python}", "-I", "-S", "-c", code), python=sys.executable, working_input="model"
    )
    ended = evaluate(
        target,
        answerer,
        evaluator,
        inputs={"labels": trees["labels"]},
        answerer_inputs={"model": trees["model"]},
    )
    first, home = log_of(target, ended.handle).splitlines()
    assert first.startswith("['model'] model ['ARL_ATTEMPT', 'ARL_INPUTS'] True ")
    assert not first.endswith(f" {home}")
    assert first.endswith("/answerer/home")


def test_the_deadline_ends_both(target: LocalProcessTarget) -> None:
    mark = "ARL_TEST_ANSWERER=deadline"
    limits = {"timeout_s": 0.3, "grace_s": 0.2}
    ended = evaluate(
        target,
        shell(f"export {mark}; trap '' TERM; while :; do sleep 1; done"),
        "import time; time.sleep(30)",
        limits=limits,
    )
    assert ended.exit.cause is ExitCause.DEADLINE
    assert processes_marked(mark) == []
