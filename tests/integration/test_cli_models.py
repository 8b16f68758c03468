"""The command line's verbs about models: what they print, refuse and write."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from controller.cli import front
from controller.cli.driving import drive
from controller.wiring import Service
from ledger.registry_reads import signatures_of
from tests.acceptance.shell_study import open_service, submit
from tests.api_server import api_server
from tests.promoted_models import PROMOTION, copied

Run = Callable[..., "Answer"]


class Answer:
    """What a verb printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def arl(
    promoted_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Verbs in this process, over a copy of a ledger with two promotions."""
    copied(promoted_home, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARL_TARGET", "local")
    monkeypatch.delenv("ARL_HOME", raising=False)

    def run(*arguments: str, code: int = 0) -> Answer:
        capsys.readouterr()
        found = front.run(arguments)
        said = capsys.readouterr()
        assert found == code, said.out + said.err
        return Answer(found, said.out, said.err)

    return run


def test_the_models_and_their_history_are_shown(arl: Run) -> None:
    shown = arl("models", "show", "toy", "--json").json()
    assert [p["seq"] for p in shown["history"]] == [2, 1]
    key = arl("keys", "--json").json()["keys"][0]
    assert shown["history"][0]["signature"]["key"] == key["key"]
    assert key["is_here"] is True
    assert "not signed" in arl("models", "show", "toy").out
    assert [m["model"] for m in arl("models", "--json").json()["models"]] == ["toy"]
    assert "toy" in arl("models").out


def test_evidence_is_checked_where_there_is_no_ledger(
    arl: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = arl("evidence", "toy", "-o", "ev", "--json").json()
    assert made["signing"] == 1, "it was signed already"
    assert arl("verify", "--promotion", "toy", "--json").json()["ok"] is True
    assert arl("verify", "--promotion", "all", code=1).out.count("not signed") == 1
    arl("evidence", "toy", "-o", "ev", code=4)
    (tmp_path / "key.pem").write_text(arl("keys", "export").out)
    monkeypatch.setenv("ARL_HOME", str(tmp_path / "elsewhere"))
    found = arl("verify", "--promotion", "ev", "--json").json()
    assert [p["key_is_known"] for p in found["promotions"]] == [False]
    assert "ask who promoted it" in arl("verify", "--promotion", "ev").out
    arl("verify", "--promotion", "ev", "--key", "key.pem")
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "ev" / "model" / "params.json").write_text("other")
    changed = arl("verify", "--promotion", "ev", code=1)
    assert "wrong: model/params.json: its bytes changed" in changed.out


def test_aliases_and_roll_backs_are_said_and_refused(arl: Run) -> None:
    arl("models", "alias", "toy", "production", "1", "--note", "first")
    assert "production=1" in arl("models").out
    assert arl("reproduce", "toy@production", "again", "--json").json()["trial"]
    arl("models", "alias", "toy", "tried", "@production")
    assert arl("models", "--json").json()["models"][0]["aliases"][1]["promotion"] == 1
    refused = arl("models", "alias", "toy", "production", "2", "--expect", "none", code=4)
    assert "names number 1 now" in refused.err
    moved = arl("models", "rollback", "toy", "@tried", "--note", "too long", "--json").json()
    for alias in ("production", "tried"):
        arl("models", "alias", "toy", alias, "none")
    assert arl("models", "--json").json()["models"][0]["aliases"] == []
    assert (moved["seq"], moved["rolled_back_to"], moved["note"]) == (3, 1, "too long")
    assert "incumbent already" in arl("models", "rollback", "toy", "1", code=4).err
    assert "number 3 now" in arl("models", "rollback", "toy", "2", "--expect", "2", code=4).err


@pytest.mark.parametrize("where", ["here", "server"])
def test_a_promotion_has_the_same_names_for_every_verb(
    arl: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    arl("models", "alias", "toy", "production", "2")
    with ExitStack() as stack:
        if where == "server":
            service = stack.enter_context(closing(open_service(tmp_path)))
            monkeypatch.setenv("ARL_SERVER", stack.enter_context(api_server(service)))
        here = {}
        for name in ("toy@production", "toy:2", "toy@2", "toy", "toy:1"):
            here[name] = arl("lineage", name, "--json").json()["candidate"]
        assert len(set(here.values())) == 2
        assert here["toy"] == here["toy@production"] == here["toy@2"] != here["toy:1"]
        assert arl("evidence", "toy@production", "--json").json()["promotion"] == "toy:2"
        assert arl("show", "toy:1", "--json").json()["candidate"] == here["toy:1"]
        noted = arl("models", "note", "toy", "@production", "--note", "terser", "--json").json()
        assert (noted["seq"], noted["notes"][0]["note"]) == (2, "terser")
        assert "terser" in arl("models", "show", "toy").out
        assert arl("verify", "--promotion", "toy@2", "--json").json()["promotions"][0]["ok"]
        assert "toy:1" in arl("verify", "--promotion", "all", code=1).out
        for verb in ("lineage", "convert --merge", "replay", "promote", "evidence", "show"):
            word, *options = verb.split()
            said = arl(word, "toy@staging", *options, code=3).err
            assert "no alias 'staging'; it has production" in said
            assert "promotions 1 to 2" in arl(word, "toy:3", *options, code=3).err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("models", "show"), 2),
        (("models", "alias", "toy", "7up", "1"), 2),
        (("models", "alias", "toy", "a", "x"), 2),
        (("models", "alias", "toy", "a", "9"), 3),
        (("models", "rollback", "nothing", "1"), 3),
        (("models", "show", "nothing"), 3),
        (("models", "rollback", "toy", "1", "--note", "n" * 3000), 2),
        (("evidence", "nothing"), 3),
        (("evidence", "toy:9"), 3),
        (("reproduce", "toy@nothing", "x"), 3),
        (("verify", "--promotion", "nothing"), 3),
        (("models", "note", "toy", "1"), 2),
        (("models", "note", "toy", "9", "--note", "x"), 3),
        (("verify", "--key", "x"), 2),
        (("keys", "new", "file"), 2),
    ],
)
def test_what_cannot_be_is_one_line(arl: Run, arguments: tuple[str, ...], code: int) -> None:
    assert arl(*arguments, code=code).err.count("\n") == 1


def test_who_drives_a_study_signs_what_it_promotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = open_service(tmp_path)
    study = submit(service, tmp_path, **PROMOTION)
    assert drive(service, [study], as_json=False, tell=False) == 0
    with service.ledger.read() as session:
        signed = signatures_of(session, "toy")
    assert [one.actor for one in signed[1]] == ["worker"]
    service.close()
    other = Path(tmp_path, "other")
    unsigned: Service = open_service(other, ARL_SIGN="0")
    assert not unsigned.settings.sign_promotions
    unsigned.close()


def test_a_stranger_repeats_a_promotion_in_a_clean_environment(arl: Run, tmp_path: Path) -> None:
    """Their own interpreter without any package, another HOME, no ARL and nothing of its."""
    arl("reproduce", "toy", "bundle")
    place = tmp_path / "stranger"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(place), "LANG": "C.UTF-8"}
    python = str(place / "bin" / "python")
    absent = [python, "-c", "import controller"]
    gone = subprocess.run(absent, env=clean, cwd="/", capture_output=True, check=False)
    assert gone.returncode != 0
    done = subprocess.run(
        [python, "reproduce.py", "--python", python, "--json"],
        cwd=tmp_path / "bundle",
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["outcome"] in ("same_model", "inside_interval")
    recipe = json.loads((tmp_path / "bundle" / "reproduction.json").read_text())
    assert str(tmp_path / ".arl") not in json.dumps(recipe)
