"""Images: named by digest, pulled when they are not here, given up when nobody waits any more."""

import io
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
import pytest

from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput, TargetUnavailable
from targets.docker_container.skeleton import system_image
from targets.docker_container.target import DockerTarget
from targets.protocol import ExitCause, Program
from tests import image_registry
from tests.docker_runs import docker_target, in_image, names_of, wait_until_gone
from tests.private_engine import Engine
from tests.target_runs import attempt, end_supervisor, finish, log_of, run, wait_until

pytestmark = pytest.mark.docker

BUSY = "arl-test-static:1"


@pytest.fixture(scope="module")
def target(
    tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine
) -> Iterator[DockerTarget]:
    base = tmp_path_factory.mktemp("images")
    with docker_target(base, docker_engine, ArtifactStore(base / "store")) as made:
        yield made


@pytest.fixture(scope="module")
def image(docker_engine: Engine) -> Iterator[str]:
    """The id of an image with a shell of its own, a variable, and a directory that it wants to
    be a volume."""
    api = docker_engine.client().api
    changes = ["VOLUME /data", "ENV COLOUR=blue", "ENV PATH=/tools:/bin", "USER root"]
    api.import_image_from_data(
        _root_with_a_shell(), repository=BUSY.split(":")[0], tag="1", changes=changes
    )
    yield str(api.inspect_image(BUSY)["Id"])
    api.remove_image(BUSY, force=True)


def _root_with_a_shell() -> bytes:
    """This machine's shell and what it links to, copied into an image."""
    import subprocess

    linked = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    files = {word for word in linked.split() if word.startswith("/")}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", dereference=True) as archive:
        for path in sorted({"/bin/sh", "/bin/cat", *files}):
            archive.add(path, arcname=path.lstrip("/"))
        for name in ("sbin", "data", "tools"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(entry)
        script = b"#!/bin/sh\necho found in the PATH of the image\n"
        entry = tarfile.TarInfo("tools/own-tool")
        entry.size, entry.mode = len(script), 0o755
        archive.addfile(entry, io.BytesIO(script))
    return written.getvalue()


@contextmanager
def registry(engine: Engine, port: int, *more: str) -> Iterator[str]:
    """The name of an image in a registry that only the engine reaches."""
    ready = Path(tempfile.mkdtemp(prefix="arl-registry-"), "ready")
    argv = (sys.executable, image_registry.__file__, str(port), str(ready), *more)
    serving = engine.run_in_network(*argv)
    try:
        wait_until(ready.exists, "the registry serves", 30.0)
        yield f"127.0.0.1:{port}/hello:{image_registry.TAG}"
    finally:
        serving.kill()
        serving.wait()
        shutil.rmtree(ready.parent)


def test_a_program_runs_in_an_image_as_in_this_machines_system(
    target: DockerTarget, image: str
) -> None:
    ended = run(target, in_image(image, 'own-tool; echo "$COLOUR"; echo x > "$ARL_OUTPUT/x"'))
    assert ended.exit.code == 0
    assert log_of(target, ended.handle) == "found in the PATH of the image\nblue\n"
    assert Path(target.outputs(ended.handle).root, "x").read_text() == "x\n"


def test_where_arl_is_a_container_its_image_stands_for_the_machines_system(
    tmp_path: Path, docker_engine: Engine, image: str
) -> None:
    target = DockerTarget(
        tmp_path / "root",
        ArtifactStore(tmp_path / "store"),
        host="here",
        options={"engine": docker_engine.host},
        own_image=image,
    )
    try:
        ended = run(target, "cat /proc/self/mounts; ls /usr/bin; exec /tools/own-tool")
        assert ended.exit.code == 0
        said = log_of(target, ended.handle)
        assert said.endswith("found in the PATH of the image\n")
        assert " /usr " not in said, "nothing of the machine is mounted"
    finally:
        target.close()
        end_supervisor(tmp_path / "root")


def test_an_image_cannot_make_itself_writable_nor_root(target: DockerTarget, image: str) -> None:
    script = (
        "(echo x > /tools/x) 2>/dev/null || echo sealed; "
        "while read -r key value; do case $key in Uid:) echo $value;; esac; "
        "done < /proc/self/status"
    )
    ended = run(target, in_image(image, script))
    sealed, user = log_of(target, ended.handle).splitlines()
    assert sealed == "sealed"
    assert "0" not in user.split()


def test_an_image_leaves_no_volume_behind(
    target: DockerTarget, docker_engine: Engine, image: str
) -> None:
    ended = run(target, in_image(image, "echo x > /data/x; exit 0"))
    target.release(ended.handle)
    wait_until(lambda: ended.handle not in names_of(docker_engine), "it is removed")
    assert not docker_engine.client().api.volumes()["Volumes"]


def test_a_program_that_an_image_lacks_is_a_failed_launch(
    target: DockerTarget, image: str
) -> None:
    program = Program(argv=("no-such-tool",), python="python3", image=image)
    ended = run(target, program)
    assert ended.exit.cause is ExitCause.LAUNCH_FAILED
    assert "no-such-tool" in ended.exit.detail
    assert "not found" in ended.exit.detail


def test_an_image_without_a_shell_is_a_failed_launch(
    target: DockerTarget, docker_engine: Engine
) -> None:
    with registry(docker_engine, 5001) as name:
        ended = run(target, Program(argv=("/hello",), python="python3", image=name))
    assert (ended.exit.cause, ended.exit.code) == (ExitCause.LAUNCH_FAILED, None)
    assert "/bin/sh" in ended.exit.detail


def test_an_image_is_pinned_by_digest_here_and_in_its_registry(
    target: DockerTarget, docker_engine: Engine, image: str
) -> None:
    assert target.pin(Program(argv=("x",), python="p")).image is None
    assert target.pin(Program(argv=("x",), python="p", image=BUSY)).image == image
    assert target.pin(Program(argv=("x",), python="p", image=image)).image == image
    with registry(docker_engine, 5002) as name:
        pinned = target.pin(Program(argv=("x",), python="p", image=name))
        manifest = image_registry.digest(image_registry.image()["manifest"][1])
        assert pinned.image == f"127.0.0.1:5002/hello@{manifest}"
        assert target.pin(pinned) == pinned
        run(target, pinned)  # pulls it
    here = target.pin(Program(argv=("x",), python="p", image=pinned.image))
    assert here == pinned
    assert target.fingerprint(pinned) == f"image {pinned.image} linux amd64"


def test_an_image_that_nobody_has_is_refused_when_it_is_pinned(
    target: DockerTarget, docker_engine: Engine
) -> None:
    with registry(docker_engine, 5003):
        for name in ("127.0.0.1:5003/hello:2", "sha256:" + "0" * 64, "Not A Name"):
            with pytest.raises(InvalidInput, match=r"target\.image"):
                target.pin(Program(argv=("x",), python="p", image=name))
    with pytest.raises(TargetUnavailable, match="cannot ask its registry"):
        target.pin(Program(argv=("x",), python="p", image="127.0.0.1:5999/hello:1"))


def test_an_image_that_cannot_be_had_ends_as_missing(
    target: DockerTarget, docker_engine: Engine
) -> None:
    with registry(docker_engine, 5004):
        for name in ("127.0.0.1:5004/hello:2", "127.0.0.1:5998/hello:1", "sha256:" + "0" * 64):
            ended = run(target, in_image(name, "exit 0"))
            assert (ended.exit.cause, ended.exit.code) == (ExitCause.IMAGE_MISSING, None)
            assert name in ended.exit.detail


def remove_others(engine: Engine) -> None:
    """What tests before these have left on their engine would hold its images."""
    for name in names_of(engine):
        with suppress(docker.errors.NotFound):
            engine.client().api.remove_container(name, force=True)


def test_an_image_that_somebody_removed_is_pulled_again(
    target: DockerTarget, docker_engine: Engine
) -> None:
    remove_others(docker_engine)
    with registry(docker_engine, 5006) as name:
        for _ in range(2):
            assert run(target, in_image(name, "exit 0")).exit.cause is ExitCause.LAUNCH_FAILED
            wait_until(lambda: names_of(docker_engine) == [], "all are removed", 30.0)
            docker_engine.client().api.remove_image(name, force=True)


def test_a_login_that_cannot_be_read_is_told_and_read_again_for_the_next_pull(
    tmp_path: Path, docker_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = tmp_path / "docker" / "config.json"
    login.parent.mkdir()
    login.write_text('{"credsStore": "arl-has-no-such"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(login.parent))
    with registry(docker_engine, 5007) as name, docker_target(tmp_path, docker_engine) as own:
        ended = run(own, in_image(name, "exit 0"))
        assert ended.exit.cause is ExitCause.IMAGE_MISSING
        assert "arl-has-no-such" in ended.exit.detail
        login.write_text("{}")
        ended = run(own, in_image(name, "exit 0"))
        assert ended.exit.cause is ExitCause.LAUNCH_FAILED, "it was pulled, and has no shell"
        wait_until_gone(docker_engine, ended.handle)
        docker_engine.client().api.remove_image(name, force=True)


def test_a_pull_is_given_up_when_its_attempt_is_killed(
    target: DockerTarget, docker_engine: Engine
) -> None:
    with registry(docker_engine, 5005, "drip") as name:
        handle = target.launch(attempt(in_image(name, "exit 0")))
        time.sleep(1.5)
        assert target.observe(handle, cursor="").exit is None
        started = time.monotonic()
        target.kill(handle)
        ended = finish(target, handle)
        assert time.monotonic() - started < 10
        assert (ended.exit.cause, ended.exit.code) == (ExitCause.KILLED, None)
        assert handle not in names_of(docker_engine)


def test_the_systems_image_is_made_again_when_somebody_removed_it(
    target: DockerTarget, docker_engine: Engine
) -> None:
    remove_others(docker_engine)
    assert run(target, "exit 0").exit.code == 0
    wait_until(lambda: names_of(docker_engine) == [], "all are removed", 30.0)
    docker_engine.client().api.remove_image(system_image(), force=True)
    assert run(target, "exit 3").exit.code == 3
