"""The Dockerfiles make images that studies run in; the engine that tests use leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.spec.loading import parse_study
from ledger import reads
from ledger.states import StudyState
from tests.acceptance.shell_study import document, drive, open_service, submit, write_evaluator
from tests.machine_image import MARKER, MARKER_VERSION, WHEELS, import_machine_image
from tests.private_engine import SCRIPT, Engine, require_private_engine, shared_engine
from tests.target_runs import end_supervisor, wait_until

ROOT = Path(__file__).resolve().parents[2]
BASE = "arl-test-base"
PIP = f"--no-index --find-links={WHEELS}"
ROLES = {"trial": "inner_trials", "evaluator": "evaluator"}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with shared_engine() as found:
        yield found


@pytest.fixture(scope="module")
def base(engine: Engine) -> str:
    os.environ.setdefault("DOCKER_HOST", engine.host)
    import_machine_image(BASE)
    return BASE


def docker(engine: Engine, *argv: str | Path, check: bool = True) -> str:
    done = subprocess.run(
        ["docker", *argv],
        env={**os.environ, "DOCKER_HOST": engine.host},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout + done.stderr if done.returncode else done.stdout


def build(engine: Engine, role: str, context: Path, *more: str, check: bool = True) -> str:
    argv: list[str | Path] = [
        "build",
        "--network=none",
        "--file",
        ROOT / ROLES[role] / "Dockerfile",
    ]
    return docker(engine, *argv, "--tag", f"arl-test-{role}", *more, context, check=check)


@pytest.fixture(scope="module")
def images(engine: Engine, base: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Both images, built as docs/containers.md says, by their role."""
    context = tmp_path_factory.mktemp("context")
    for role in ROLES:
        (context / f"{role}.txt").write_text(f"{MARKER}=={MARKER_VERSION}\n")
        arguments = ("--build-arg", f"BASE_IMAGE={base}", "--build-arg", f"PIP_OPTIONS={PIP}")
        build(engine, role, context, *arguments)
    return {role: f"arl-test-{role}" for role in ROLES}


@pytest.mark.docker
@pytest.mark.parametrize("role", ROLES)
def test_an_image_runs_as_nobody_starts_what_it_is_told_and_shows_no_gpu(
    engine: Engine, images: dict[str, str], role: str
) -> None:
    config = json.loads(docker(engine, "inspect", "--format", "{{json .Config}}", images[role]))
    assert config["User"] == "65532:65532"
    assert not config.get("Entrypoint")
    assert "NVIDIA_VISIBLE_DEVICES=void" in config["Env"]
    assert config["Labels"] == {
        "org.opencontainers.image.title": f"arl-{role}",
        "org.opencontainers.image.description": config["Labels"][
            "org.opencontainers.image.description"
        ],
        "org.opencontainers.image.base.name": BASE,
    }
    script = "id -u; python3 -c 'import arl_image_marker as m; print(m.VERSION)'"
    argv = ("run", "--rm", "--network=none", "--read-only", images[role], "/bin/sh", "-c", script)
    assert docker(engine, *argv).split() == ["65532", MARKER_VERSION]


@pytest.mark.docker
def test_a_requirement_that_cannot_be_had_fails_the_build(
    engine: Engine, base: str, tmp_path: Path
) -> None:
    (tmp_path / "trial.txt").write_text(f"{MARKER}==9.9.9\n")
    arguments = ("--build-arg", f"BASE_IMAGE={base}", "--build-arg", f"PIP_OPTIONS={PIP}")
    said = build(engine, "trial", tmp_path, *arguments, check=False)
    assert f"{MARKER}==9.9.9" in said
    assert "Successfully built" not in said


TRAIN = """
import arl_image_marker, json, os
with open(os.environ["ARL_PARAMS"]) as file:
    x = json.load(file)["parameters"]["x"]
os.mkdir(os.environ["ARL_OUTPUT"] + "/model")
with open(os.environ["ARL_OUTPUT"] + "/model/x", "w") as file:
    file.write(f"{x} {os.getuid()} {arl_image_marker.VERSION} {os.path.exists('/opt/wheels')}")
"""
EVALUATE = """
import arl_image_marker, json, os
with open(os.environ["ARL_INPUTS"] + "/artifact/x") as file:
    x, uid, version, is_image = file.read().split()
assert (uid, version, is_image) == ("65532", arl_image_marker.VERSION, "True")
os.write(3, json.dumps({"metrics": {"score": float(x)}}).encode())
"""


@pytest.mark.docker
def test_a_study_trains_and_is_evaluated_in_the_built_images(
    engine: Engine, images: dict[str, str], tmp_path: Path
) -> None:
    service = open_service(tmp_path, DOCKER_HOST=engine.host)
    write_evaluator(tmp_path)
    (tmp_path / "evaluator" / "score.py").write_text(EVALUATE)
    evaluator = document()["evaluator"]
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["{python}", "-c", TRAIN]},
        evaluator={
            **evaluator,
            "argv": ["{python}", "-I", "{bundle}/score.py"],
            "image": images["evaluator"],
        },
        target={"name": "docker", "image": images["trial"]},
        resources={"cpus": 1},
        budget={"trials": 2},
    )
    study = drive(service, study_id)
    assert study.state is StudyState.COMPLETED, study.detail
    spec = parse_study(study.spec)
    frozen = (spec.target.image, spec.evaluator.image)
    built = tuple(
        docker(engine, "inspect", "--format", "{{.Id}}", images[role]).strip() for role in ROLES
    )
    assert frozen == built, "which no tag that moves can change"
    with service.ledger.read() as session:
        trials = [item.trial for item in reads.list_trials(session, study_id).items]
    assert len(trials) == 4
    assert all(trial.value is not None for trial in trials)
    service.close()
    end_supervisor(next((tmp_path / ".arl").glob("docker*")))


@pytest.mark.parametrize("name", ["trial.txt", "evaluator.txt"])
def test_images_hold_the_versions_that_are_tested(name: str) -> None:
    pins = [(ROOT / "constraints" / file).read_text().splitlines() for file in ("cpu.txt", name)]
    tested, installed = ({line for line in lines if "==" in line} for lines in pins)
    assert installed
    assert installed <= tested


@pytest.mark.train
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the files are made with Python 3.11")
def test_images_hold_all_that_their_libraries_need() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "image_requirements.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.docker
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_private_engine_whose_script_is_ended_is_gone_with_its_containers(
    how: signal.Signals,
) -> None:
    require_private_engine()
    directory = Path(tempfile.mkdtemp(prefix="arl-engine."))
    container = (
        'd=$(mktemp -d); mkdir "$d/proc" "$d/dev" "$d/sys" "$d/sbin" "$d/usr" "$d/etc"; '
        'ln -s usr/bin usr/lib usr/lib64 "$d"; tar -C "$d" -cf - . | docker import - skeleton; '
        "docker run --detach --network=none --volume /usr:/usr:ro skeleton sleep 600; "
        'rm -rf "$d"; echo started; exec sleep 600'
    )
    script = subprocess.Popen(
        [str(SCRIPT), "sh", "-c", container],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "DOCKER_HOST"}
        | {"ARL_ENGINE_DIR": str(directory)},
    )
    assert script.stdout is not None
    assert "started\n" in iter(script.stdout.readline, "")
    group = f"arl-engine-{script.pid}"
    assert left_of(directory, group) != []
    os.killpg(script.pid, how)
    script.wait(60)
    script.stdout.close()
    wait_until(lambda: left_of(directory, group) == [], "nothing is left", 40.0)
    time.sleep(0.2)
    assert left_of(directory, group) == []


def left_of(directory: Path, group: str) -> list[str]:
    """Files, mounts, cgroups, network namespaces and processes of a private engine."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found = [line for line in mounts if str(directory) in line or group in line]
    found += map(str, Path("/sys/fs/cgroup").glob(f"**/{group}"))
    found += [str(path) for path in (directory, Path("/run/netns", group)) if path.exists()]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = entry.read_bytes()
        except OSError:
            continue
        if str(directory).encode() in argv:
            found.append(f"{entry.parent.name} {argv[:100]!r}")
    return found
