"""`answers` mode in two containers: one conversation, nothing else shared."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from ledger.records import AttemptKind
from targets import layout
from targets.docker_container.containment import answerer_name
from targets.docker_container.target import DockerTarget
from targets.protocol import ExitCause, Program
from tests.docker_runs import docker_target, kill_keeper, wait_until_gone, wait_until_started
from tests.private_engine import Engine
from tests.target_runs import (
    ANSWERER,
    EVALUATOR,
    attempt,
    evaluate,
    finish,
    log_of,
    processes_marked,
    python,
    shell,
)

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def target(
    tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine, store: ArtifactStore
) -> Iterator[DockerTarget]:
    with docker_target(tmp_path_factory.mktemp("answers"), docker_engine, store) as made:
        yield made


def test_the_candidate_answers_what_the_evaluator_asks(
    target: DockerTarget, docker_engine: Engine
) -> None:
    ended = evaluate(target, python(ANSWERER))
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert target.score(ended.handle) == b'{"right": 5}'
    assert log_of(target, ended.handle) == ""
    log = Path(target._root, layout.ATTEMPTS, ended.handle, layout.ANSWERER_LOG)
    assert log.read_text() == "loading\n"
    target.release(ended.handle)
    wait_until_gone(docker_engine, ended.handle, answerer_name(ended.handle))


def test_both_are_ended_when_the_evaluator_is_done(
    target: DockerTarget, docker_engine: Engine
) -> None:
    mark = "ARL_TEST_ANSWERER=stays"
    answerer = shell(f"export {mark}; setsid sleep 60 & sleep 61")
    ended = evaluate(target, answerer, "import time; time.sleep(0.3)")
    assert ended.exit.code == 0
    assert ended.exit.wall_s < 10
    assert processes_marked(mark) == []
    wait_until_gone(docker_engine, ended.handle, answerer_name(ended.handle))


def test_an_answerer_that_dies_is_seen_by_the_evaluator(target: DockerTarget) -> None:
    ended = evaluate(target, shell("exit 1"), EVALUATOR)
    assert ended.exit.code == 1
    assert "BrokenPipe" in log_of(target, ended.handle) or not target.score(ended.handle)


def test_an_answerer_that_cannot_start_ends_the_conversation(target: DockerTarget) -> None:
    evaluator = "import os, sys; sys.exit(7 if not os.fdopen(5).readline() else 0)"
    ended = evaluate(target, Program(argv=("no-such-candidate",), python="python"), evaluator)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 7)


def test_the_answerer_has_its_own_inputs_and_neither_score_nor_labels(
    target: DockerTarget, store: ArtifactStore, tmp_path: Path
) -> None:
    trees = {}
    for name in ("labels", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        trees[name] = store.put_tree(tmp_path / name)
    code = (
        "import os, sys; sys.stdin.readline(); e = os.environ; "
        "print(sorted(os.listdir(e['ARL_INPUTS'])), open('file').read(), "
        "sorted(n for n in e if n.startswith('ARL_')), sorted(os.listdir('/arl')), "
        "sorted(os.listdir('/proc/self/fd')))"
    )
    evaluator = "import os\nos.write(4, b'x\\n')\nprint(os.fdopen(5).readline(), end='')"
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
    assert log_of(target, ended.handle) == (
        "['model'] model ['ARL_ATTEMPT', 'ARL_INPUTS'] "
        "['answer', 'ask', 'home', 'inputs', 'work'] ['0', '1', '2', '3']\n"
    )


def test_the_deadline_ends_both(target: DockerTarget, docker_engine: Engine) -> None:
    mark = "ARL_TEST_ANSWERER=deadline"
    limits = {"timeout_s": 0.5, "grace_s": 0.2}
    ended = evaluate(
        target,
        shell(f"export {mark}; trap '' TERM; while :; do sleep 1; done"),
        "import time; time.sleep(30)",
        limits=limits,
    )
    assert ended.exit.cause is ExitCause.DEADLINE
    assert processes_marked(mark) == []
    wait_until_gone(docker_engine, ended.handle, answerer_name(ended.handle))


def test_a_conversation_goes_on_under_the_next_keeper(
    target: DockerTarget, docker_engine: Engine
) -> None:
    evaluator = EVALUATOR.replace("range(5)", "range(40)").replace(
        "answer = ", "import time; time.sleep(0.05); answer = "
    )
    spec = attempt(python(evaluator), kind=AttemptKind.EVALUATE, answerer=python(ANSWERER))
    handle = target.launch(spec)
    wait_until_started(docker_engine, handle)
    kill_keeper(target)
    ended = finish(target, handle)
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 0)
    assert target.score(handle) == b'{"right": 40}'
    wait_until_gone(docker_engine, handle, answerer_name(handle))


def test_a_memory_hungry_answerer_is_its_own_end_not_the_evaluators(
    target: DockerTarget,
) -> None:
    evaluator = "import os, sys; sys.exit(7 if not os.fdopen(5).readline() else 0)"
    answerer = python("x = bytearray(300 << 20)")
    ended = evaluate(target, answerer, evaluator, limits={"memory_bytes": 100 << 20})
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.EXITED, 7)
    assert os.path.isdir(target.outputs(ended.handle).root)
