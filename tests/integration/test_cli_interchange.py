"""`arl import` and the exports into other tools: words, JSON, exit codes."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from controller.cli.front import run
from tests.interchange_studies import autoresearch_run, manifest


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Arl: TypeAlias = Callable[..., Said]

IMPORT = ("import", "--from", "autoresearch-rl", "run")


@pytest.fixture
def arl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Arl:
    """The command in this process, in a place with a run directory and no ledger yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARL_HOME", str(tmp_path / ".arl"))
    # Set, so that what a test sets in this process is undone after it.
    for name in ("ARL_SERVER", "ARL_TOKEN", "ARL_LEDGER"):
        monkeypatch.setenv(name, "")
    autoresearch_run(tmp_path / "run", manifest(0), manifest(1, status="failed"), manifest(2))

    def said(*arguments: str) -> Said:
        code = run(arguments)
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return said


def test_import_says_what_it_took_over_and_what_it_had(arl: Arl, tmp_path: Path) -> None:
    done = arl(*IMPORT, "--study-file", "next.yaml", "--name", "theirs", "--json").json()
    assert (done["imported"], done["trials"], done["name"]) == (True, 3, "theirs")
    assert done["states"] == {"complete": 2, "failed": 1}
    assert done["best"] == {"number": 2, "value": 0.2, "params": {"x": 0.3, "opt": "adam"}}
    assert "default: 0.3" in (tmp_path / "next.yaml").read_text()
    again = arl(*IMPORT)
    assert f"was imported before, with the same 3 trials, as study {done['study']}" in again.out
    assert arl(*IMPORT, "--study-file", "next.yaml").code == 4, "the file is in the way"
    assert arl("show", done["study"], "--json").json()["state"] == "imported"
    assert arl("verify").code == 0
    assert len(arl("export", "last", "--format", "json").json()) == 3


def test_nothing_runs_repeats_or_resumes_an_imported_study(arl: Arl) -> None:
    arl(*IMPORT)
    for argv in (
        ("extend", "last", "--trials", "+3"),
        ("replay", "last/0"),
        ("promote", "last/0"),
        ("trial", "last", "x=0.1", "opt=sgd"),
        ("reproduce", "last/0", "repeat"),
        ("export", "last/0", "--format", "huggingface", "-o", "model"),
    ):
        done = arl(*argv)
        assert (done.code, "was imported" in done.err) == (4, True), (argv, done.err)
    assert arl("resume", "last").code == 4


def test_bad_words_are_refused_by_name(arl: Arl) -> None:
    arl(*IMPORT)
    for argv, code, said in (
        (("import", "--from", "elsewhere", "run"), 2, "elsewhere"),
        (("import", "--from", "autoresearch-rl", "none"), 2, "run-manifest.json"),
        ((*IMPORT, "--study", "x"), 3, "no episode"),
        ((*IMPORT, "--name", "a b"), 2, "--name"),
        (("export", "last", "--format", "optuna"), 2, "say where to"),
        (("export", "last", "--format", "mlflow"), 2, "say where to"),
        (("export", "last", "--name", "x"), 2, "--name"),
        (("export", "last", "--format", "huggingface", "-o", "x", "--name", "y"), 2, "--name"),
        (("export", "nobody", "--format", "huggingface", "-o", "x"), 3, "nobody"),
        ((*IMPORT, "--server", "http://x"), 2, "leave --server out"),
    ):
        done = arl(*argv)
        assert done.code == code, (argv, done.err)
        assert said in done.err, (argv, done.err)


def test_these_forms_need_the_ledger_itself(arl: Arl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARL_SERVER", "http://127.0.0.1:1")
    for form in ("optuna", "mlflow", "huggingface"):
        done = arl("export", "last", "--format", form, "-o", "x")
        assert (done.code, "run it where ARL_HOME is" in done.err) == (2, True)


def test_a_study_goes_out_to_optuna_and_the_line_says_so(arl: Arl, tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    arl(*IMPORT)
    done = arl("export", "last", "--format", "optuna", "-o", "out.db", "--json").json()
    assert (done["trials"], done["file"], done["format"]) == (3, "out.db", "optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{tmp_path / 'out.db'}")
    assert study.best_trial.params == {"x": 0.3, "opt": "adam"}
    assert study.trials[1].state.name == "FAIL"
    taken = arl("export", "last", "--format", "optuna", "-o", f"sqlite:///{tmp_path}/out.db")
    assert taken.code == 4
    back = arl("import", "--from", "optuna", "out.db", "--json").json()
    assert back["best"]["params"] == {"x": 0.3, "opt": "adam"}


@pytest.mark.parametrize("library", ["mlflow", "optuna"])
def test_a_missing_library_is_named_with_what_installs_it(
    arl: Arl, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    arl(*IMPORT)
    monkeypatch.setitem(sys.modules, library, None)
    done = arl("export", "last", "--format", library, "-o", "x")
    assert (done.code, f"pip install 'arl[{library}]'" in done.err) == (2, True)
