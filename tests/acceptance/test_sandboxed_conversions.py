"""Conversions are attempts like any other: in sandboxes and containers, with real libraries."""

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controller.wiring import Service
from ledger import reads
from ledger.conversion_records import Conversion
from ledger.records import ArtifactRole, Attempt, AttemptKind, TrialKind
from ledger.states import ConversionState, Reason, StudyState
from tests.acceptance.converted_study import conversions_of, submit_converted
from tests.acceptance.shell_study import drive, open_service
from tests.integration.test_conversion_programs import (
    COMPRESSOR,
    TORCHAO,
    needs_compressor,
    needs_torchao,
)
from tests.machine_image import PYTHON, import_machine_image
from tests.private_engine import Engine
from tests.target_runs import end_supervisor, require_bubblewrap, wait_until

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(900)]
BUBBLEWRAP = {"name": "bubblewrap"}
IMAGE = "arl-converter:test"
UNUSED = re.compile(
    "ray|pyarrow|playwright|scipy|mypy|ruff|.*__mypyc|sqlalchemy|pandas|psycopg|pip|_pytest|arl"
    "|.*editable.*|.*pth|__pycache__|trl|datasets",
    re.IGNORECASE,
)
"""Large packages that neither converts nor evaluates, by how their names begin."""


@pytest.fixture(autouse=True)
def _ends_supervisors(tmp_path: Path) -> Iterator[None]:
    yield
    for root in (tmp_path / ".arl").glob("*"):
        if root.name.startswith(("bubblewrap", "docker", "local")):
            end_supervisor(root)


def attempts_of(service: Service, study_id: str) -> list[Attempt]:
    """Those of its conversions."""
    with service.ledger.read() as session:
        trials = [item.trial for item in reads.list_trials(session, study_id, limit=200).items]
        ids = [trial.id for trial in trials if trial.kind is TrialKind.CONVERSION]
        return [a for trial_id in ids for a in reads.get_trial(session, trial_id).attempts]


def check_converted(service: Service, study_id: str, target: str, *methods: str) -> None:
    found = conversions_of(service, study_id)
    said = [(c.method, c.state, c.reason) for c in found]
    expected = [(m, ConversionState.SERVABLE, Reason.NOT_INFERIOR) for m in methods]
    assert said == expected, [c.detail for c in found]
    attempts = attempts_of(service, study_id)
    assert {a.target for a in attempts} == {target}
    kinds = [AttemptKind.CONVERT, *[AttemptKind.EVALUATE] * 3]
    assert [a.kind for a in attempts] == kinds * len(methods)
    for conversion in found:
        check_figures(service, conversion)


def check_figures(service: Service, conversion: Conversion) -> None:
    (measured,) = conversion.evidence["measured"]  # type: ignore[misc]  # a list of one
    assert isinstance(measured, Mapping)
    before, after = measured["unconverted"], measured["converted"]
    assert isinstance(before, Mapping)
    assert isinstance(after, Mapping)
    assert after["size_bytes"] < before["size_bytes"]  # type: ignore[operator]
    assert conversion.artifact_digest is not None
    files = {path for path, *_ in service.store.manifest(conversion.artifact_digest)}
    assert {"config.json", "tokenizer.json"} <= files
    with service.ledger.read() as session:
        promoted = reads.find_artifact(session, conversion.sources[0], ArtifactRole.MODEL)
    assert conversion.digests[0] == promoted


@needs_torchao
@pytest.mark.bubblewrap
def test_int8_and_int4_are_made_in_a_sandbox_by_an_interpreter_beside_arls(
    tmp_path: Path,
) -> None:
    require_bubblewrap()
    service = open_service(tmp_path)
    wanted = [{"quantize": method, "python": str(TORCHAO)} for method in ("int8", "int4")]
    study_id = submit_converted(service, tmp_path, wanted, target=BUBBLEWRAP)
    done = drive(service, study_id)
    assert done.state is StudyState.COMPLETED, done.detail
    check_converted(service, study_id, "bubblewrap", "int8", "int4")
    service.close()


@needs_torchao
@pytest.mark.bubblewrap
def test_kill_9_of_the_worker_in_the_middle_repeats_nothing_of_a_sandboxed_conversion(
    tmp_path: Path,
) -> None:
    require_bubblewrap()
    service = open_service(tmp_path)
    wanted = [{"quantize": "int8", "python": str(TORCHAO)}]
    study_id = submit_converted(service, tmp_path, wanted, target=BUBBLEWRAP)
    attempts = tmp_path / ".arl" / "bubblewrap" / "attempts"
    environment = {**os.environ, "ARL_HOME": str(tmp_path / ".arl")}
    command = [sys.executable, "-m", "controller.cli", "resume", study_id]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as worker:
        wait_until(lambda: list(attempts.glob("*.c-0")), "it converts", 300.0)
        worker.kill()
    done = drive(service, study_id)
    assert done.state is StudyState.COMPLETED, done.detail
    check_converted(service, study_id, "bubblewrap", "int8")
    assert [a.index for a in attempts_of(service, study_id)] == [0, 0, 0, 0]
    service.close()


@needs_compressor
@pytest.mark.bubblewrap
def test_gptq_and_awq_are_made_in_a_sandbox_by_an_interpreter_beside_arls(
    tmp_path: Path,
) -> None:
    require_bubblewrap()
    service = open_service(tmp_path)
    wanted = [{"quantize": method, "python": str(COMPRESSOR)} for method in ("gptq", "awq")]
    study_id = submit_converted(service, tmp_path, wanted, target=BUBBLEWRAP)
    done = drive(service, study_id)
    assert done.state is StudyState.COMPLETED, done.detail
    check_converted(service, study_id, "bubblewrap", "gptq", "awq")
    service.close()


@needs_torchao
@pytest.mark.docker
def test_int8_is_made_in_a_container_of_this_machines_own_system(
    tmp_path: Path, docker_engine: Engine
) -> None:
    service = open_service(tmp_path, DOCKER_HOST=docker_engine.host)
    wanted = [{"quantize": "int8", "python": str(TORCHAO)}]
    study_id = submit_converted(service, tmp_path, wanted, target={"name": "docker"})
    done = drive(service, study_id)
    assert done.state is StudyState.COMPLETED, done.detail
    check_converted(service, study_id, "docker", "int8")
    service.close()


@pytest.fixture(scope="module")
def image(docker_engine: Engine) -> Iterator[str]:
    """One that holds a Python with torch, transformers and torchao: 1.2 GB."""
    beside = next(TORCHAO.parents[1].glob("lib/python*/site-packages"))
    packages = [p for p in Path(sysconfig.get_path("purelib")).iterdir()]
    packages = [p for p in packages if not UNUSED.match(p.name)]
    packages += [p for p in beside.iterdir() if p.name.startswith("torchao")]
    yield import_machine_image(IMAGE, packages)
    docker_engine.client(timeout_s=300.0).api.remove_image(IMAGE, force=True)


@needs_torchao
@pytest.mark.docker
def test_int8_is_made_in_an_image_by_an_interpreter_that_is_only_there(
    tmp_path: Path, docker_engine: Engine, image: str
) -> None:
    service = open_service(tmp_path, DOCKER_HOST=docker_engine.host)
    wanted = [{"quantize": "int8", "python": PYTHON}]
    target = {"name": "docker", "image": IMAGE}
    study_id = submit_converted(service, tmp_path, wanted, target=target)
    done = drive(service, study_id)
    assert done.state is StudyState.COMPLETED, done.detail
    check_converted(service, study_id, "docker", "int8")
    service.close()
