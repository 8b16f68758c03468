"""The command line on other ledgers: PostgreSQL, ones that do not answer, ones that are none."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.backup import back_up
from ledger.errors import Conflict
from tests.cli_runs import Arl, arl_in
from tests.postgres_server import PostgresServer


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path / "place") as made:
        yield made


@pytest.mark.postgres
def test_a_study_on_postgresql_is_run_and_looked_at(
    arl: Arl, postgres_server: PostgresServer
) -> None:
    at = {"ARL_LEDGER": postgres_server.new_ledger_url()}
    done = arl.ok("run", arl.study(), "--json", **at).json()
    assert done["state"] == "completed"
    assert not (arl.home / "ledger.db").exists()
    study = arl.ok("show", done["study"][:6], "--json", **at).json()
    assert [t["number"] for t in study["trials"]] == list(range(5))
    trial = arl.ok("show", "last/3", "--json", **at).json()
    assert trial["latest"][0]["metric"] == "train/loss"
    assert arl.ok("lineage", trial["candidate"], "--json", **at).json()["nodes"]
    assert arl.ok("verify", "--json", **at).json()["ok"] is True
    assert arl.ok("extend", "last", "--trials", "+1", "--json", **at).json()["by"] == "here"
    assert arl.ok("resume", "--json", **at).json()["counts"]["total"] == 6
    assert len(arl.ok("export", "last", **at).out.splitlines()) == 7


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("nonsense", 5),
        ("mysql://localhost/arl", 2),
        ("://", 2),
        ("sqlite:///:memory:", 2),
        ("postgresql://nobody:hunter2@127.0.0.1:1/arl", 5),
    ],
)
def test_a_ledger_that_cannot_be_used_is_told_in_one_line(arl: Arl, url: str, code: int) -> None:
    done = arl.run("studies", "--json", ARL_LEDGER=url)
    assert done.code == code, done.err
    assert len(done.err.splitlines()) == 1
    assert "hunter2" not in done.err + done.out
    assert done.json()["error"]["exit_code"] == code


def test_a_file_that_is_no_ledger_is_left_as_it_is(arl: Arl) -> None:
    arl.home.mkdir()
    (arl.home / "ledger.db").write_bytes(b"my diary " * 1000)
    for verb in (("show",), ("run", arl.study()), ("verify",)):
        done = arl.run(*verb)
        assert done.code == 5
        assert done.err.startswith("arl: ledger_unavailable: ")
    assert (arl.home / "ledger.db").read_bytes() == b"my diary " * 1000


def test_a_ledger_is_copied_wherever_it_lies(tmp_path: Path) -> None:
    with arl_in(tmp_path / "run #1, 50%20?x=1") as arl:
        arl.ok("run", arl.study())
        copy = tmp_path / "copy #2.db"
        assert arl.ok("db", "backup", str(copy), "--json").json()["size_bytes"] > 0
    database = sqlite3.connect(copy)
    assert database.execute("SELECT count(*) FROM studies").fetchone() == (1,)
    database.close()


def test_a_copy_needs_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:  # as exFAT does, which cannot be made here
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    source, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    database = sqlite3.connect(source)
    database.execute("CREATE TABLE known (x)")
    database.close()
    monkeypatch.setattr(os, "link", refused)
    assert back_up(source, copy) == copy.stat().st_size > 0
    with pytest.raises(Conflict, match="name a new file"):
        back_up(source, copy)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "ledger.db"]
