"""The demo promoted, and repeated by a stranger who has nothing of ARL or its ledger."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli_runs import Arl, arl_in

pytestmark = [pytest.mark.train, pytest.mark.slow, pytest.mark.timeout(2400)]

SEARCH_ITEMS, HOLDOUT_ITEMS = 64, 128
LOOK = (
    "import importlib.util as u, sys, torch; "
    "print([n for n in ('controller', 'ledger', 'inner_trials', 'pytest') if u.find_spec(n)], "
    "torch.__file__.startswith(sys.prefix))"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def bundle(place: Path) -> Iterator[Path]:
    """The example study as `arl init` writes it, but shorter; promoted, and bundled in a folder
    of its own, after which everything that made it is out of reach."""
    with arl_in(place / "here") as arl:
        arl.ok("init", "sort", "--example", "sort")
        shorten(place / "here" / "sort")
        study = Arl(place / "here" / "sort")
        with study.start("run", "study.yaml", "--json", ARL_HOME=str(arl.home)) as process:
            out, err = process.communicate(timeout=1500)
        assert process.returncode == 0, out + err
        arl.ok("reproduce", "sort", str(place / "elsewhere" / "bundle"))
    (place / "here").rename(place / "gone")
    (place / "gone").chmod(0)
    yield place / "elsewhere" / "bundle"
    (place / "gone").chmod(0o755)


def shorten(directory: Path) -> None:
    """Two learning rates, one of which teaches nothing in so few steps."""
    path = directory / "study.yaml"
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    document["program"]["options"]["max_steps"] = 30
    rates = {"type": "categorical", "choices": [1e-5, 3e-3], "default": 1e-5}
    document["space"] = {"learning_rate": rates}
    document |= {"proposer": {"name": "grid"}, "budget": {"trials": 2}, "noise": {}}
    document["promotion"].pop("guard")
    path.write_text(yaml.safe_dump(document))
    for name, items in (("search", SEARCH_ITEMS), ("holdout", HOLDOUT_ITEMS)):
        split = directory / "evaluator" / f"{name}.jsonl"
        split.write_text("".join(split.read_text().splitlines(keepends=True)[:items]))


@pytest.fixture(scope="module")
def python(place: Path, bundle: Path) -> Path:
    """An environment as the bundle's README says to make it, from a Python without packages."""
    stranger = place / "stranger"
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    subprocess.run([base, "-m", "venv", stranger / "env"], check=True, env=clean(stranger))
    made = stranger / "env" / "bin" / "python"
    index = {n: v for n, v in os.environ.items() if n.startswith("PIP_") or "proxy" in n.lower()}
    wanted = [made, "-m", "pip", "install", "--quiet", "-r", bundle / "requirements.txt"]
    subprocess.run(wanted, check=True, env={**index, **clean(stranger)})
    looked = run(stranger, str(made), "-c", LOOK)
    assert looked.stdout.split("\n")[0] == "[] True", looked.stdout + looked.stderr
    return made


def clean(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}


def run(home: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    """In its own HOME and, where that can be had, without any network."""
    apart = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []
    return subprocess.run(
        [*apart, *argv], env=clean(home), cwd=home, capture_output=True, text=True, check=False
    )


def repeated(python: Path, bundle: Path) -> dict[str, Any]:
    home = python.parents[2]
    done = run(home, str(python), str(bundle / "reproduce.py"), "--python", str(python), "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0, found
    return found


def test_what_to_install_is_what_the_programs_use_and_no_more(bundle: Path) -> None:
    lines = (bundle / "requirements.txt").read_text().splitlines()
    names = {line.partition("==")[0].lower() for line in lines if not line.startswith("#")}
    assert {"torch", "transformers", "trl", "peft", "datasets", "numpy"} <= names
    assert not names & {"arl", "pytest", "mypy", "sqlalchemy", "fastapi", "ruff"}
    said = (bundle / "README.md").read_text() + (bundle / "reproduction.json").read_text()
    assert str(bundle.parents[1]) not in said, "nothing of where it was made"


def test_on_the_same_kind_of_processor_it_is_the_same_model_to_the_bit(
    python: Path, bundle: Path
) -> None:
    found = repeated(python, bundle)
    assert found["outcome"] == "same_model", found
    assert found["artifact"] == found["expected_artifact"]


def test_on_another_kind_of_processor_every_score_is_inside_its_interval(
    python: Path, bundle: Path, tmp_path: Path
) -> None:
    """PyTorch is told to use the instructions of an old processor."""
    other = tmp_path / "bundle"
    shutil.copytree(bundle, other)
    recipe = json.loads((other / "reproduction.json").read_text())
    for step in ("train", "evaluate"):
        recipe[step]["environment"]["ATEN_CPU_CAPABILITY"] = "default"
    (other / "reproduction.json").write_text(json.dumps(recipe))
    found = repeated(python, other)
    assert found["outcome"] in ("inside_interval", "same_model"), found
    assert found["artifact"] != found["expected_artifact"], "the instructions made no difference"
    assert set(found["scores"]) == {"search", "holdout_a", "holdout_b"}
