"""The command line's verbs about models: what they print, refuse and write."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli import front
from tests.cli_runs import Arl, arl_in


@pytest.fixture(scope="module")
def arl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arl]:
    """One promotion, signed by who ran the study."""
    with arl_in(tmp_path_factory.mktemp("models") / "place") as made:
        made.ok("init", "example")
        place = Arl(made.place / "example")
        place.ok("run", "study.yaml", "--json", ARL_SIGN="1")
        yield place


def test_a_promotion_is_signed_by_who_ran_the_study(arl: Arl) -> None:
    shown = arl.ok("models", "show", "line", "--json").json()
    assert [p["seq"] for p in shown["history"]] == [1]
    keys = arl.ok("keys", "--json").json()["keys"]
    assert shown["history"][0]["signature"]["key"] == keys[0]["key"]
    assert shown["history"][0]["signature"]["actor"] == "worker"
    assert "not signed" not in arl.ok("models", "show", "line").out
    assert "line" in arl.ok("models").out


def test_evidence_is_checked_where_there_is_no_ledger(arl: Arl, tmp_path: Path) -> None:
    made = arl.ok("evidence", "line", "-o", str(tmp_path / "ev"), "--json").json()
    assert made["signing"] == 1, "it was signed already"
    assert arl.ok("verify", "--promotion", "line", "--json").json()["ok"] is True
    stranger = Arl(tmp_path)
    found = stranger.ok("verify", "--promotion", "ev", "--json").json()
    assert [p["key_is_known"] for p in found["promotions"]] == [False]
    assert not stranger.home.exists()
    assert "ask who promoted it" in stranger.ok("verify", "--promotion", "ev").out
    public = arl.ok("keys", "export").out
    (tmp_path / "public.pem").write_text(public)
    stranger.ok("verify", "--promotion", "ev", "--key", "public.pem")
    (tmp_path / "ev" / "model" / "line").write_text("other")
    changed = stranger.run("verify", "--promotion", "ev")
    assert changed.code == 1
    assert "wrong: model/line: its bytes changed" in changed.out
    assert arl.run("evidence", "line", "-o", str(tmp_path / "ev")).code == 4


def test_aliases_and_roll_backs_are_said_and_refused(arl: Arl) -> None:
    arl.ok("models", "alias", "line", "production", "1", "--note", "first")
    assert "production=1" in arl.ok("models").out
    assert arl.ok("reproduce", "line@production", "again", "--json").json()["trial"]
    refused = arl.run("models", "alias", "line", "production", "1", "--expect", "none")
    assert (refused.code, "names number 1 now" in refused.err) == (4, True)
    arl.ok("models", "alias", "line", "production", "none")
    assert arl.ok("models", "--json").json()["models"][0]["aliases"] == []
    back = arl.run("models", "rollback", "line", "1")
    assert (back.code, "incumbent already" in back.err) == (4, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("models", "show"), 2),
        (("models", "alias", "line", "7up", "1"), 2),
        (("models", "alias", "line", "a", "x"), 2),
        (("models", "alias", "line", "a", "9"), 3),
        (("models", "rollback", "nothing", "1"), 3),
        (("models", "show", "nothing"), 3),
        (("evidence", "nothing"), 3),
        (("evidence", "line:9"), 3),
        (("verify", "--promotion", "nothing"), 3),
        (("verify", "--key", "x"), 2),
        (("keys", "new", "file"), 2),
    ],
)
def test_what_cannot_be_is_one_line(
    arl: Arl,
    arguments: tuple[str, ...],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process: a new one for each would take longer than all of them."""
    monkeypatch.chdir(arl.place)
    monkeypatch.setenv("ARL_TARGET", "local")
    assert front.run(arguments) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_a_stranger_repeats_a_promotion_in_a_clean_environment(arl: Arl, tmp_path: Path) -> None:
    """Their own interpreter without any package, another HOME, no ARL and nothing of its."""
    arl.ok("reproduce", "line", str(tmp_path / "bundle"))
    place = tmp_path / "stranger"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    python = str(place / "bin" / "python")
    absent = [python, "-c", "import controller"]
    assert subprocess.run(absent, env=clean, cwd="/", capture_output=True).returncode != 0
    done = subprocess.run(
        [python, "reproduce.py", "--python", python, "--json"],
        cwd=tmp_path / "bundle",
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["outcome"] == "same_model"
    recipe = (tmp_path / "bundle" / "reproduction.json").read_text()
    for private in (str(arl.place), os.environ["HOME"] + "/"):
        assert private not in recipe.replace(sys.executable, "")
