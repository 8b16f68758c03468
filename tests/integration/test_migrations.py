"""The migrations make exactly the tables the code uses; other versions are refused."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from ledger.database import Ledger, open_ledger
from ledger.errors import InvalidInput, LedgerTooNew, LedgerTooOld, LedgerUnavailable
from ledger.schema import REVISIONS, migration_config, upgrade_schema
from ledger.tables import Base

ROOT = Path(__file__).resolve().parents[2]


def set_revision(ledger: Ledger, revision: str) -> None:
    with ledger.write() as session:
        session.connection.execute(
            text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision}
        )


def test_the_migrations_make_the_tables_the_code_describes(ledger: Ledger) -> None:
    from alembic import command

    with ledger.write() as session:
        command.check(migration_config(session.connection))  # raises when they differ


def test_triggers_and_single_rows_are_there(ledger: Ledger) -> None:
    with ledger.read() as session:
        run = session.connection.execute
        assert run(text("SELECT count(*) FROM ledger")).scalar_one() == 1
        assert run(text("SELECT seq FROM service_head WHERE id = 1")).scalar_one() == 0
        tables = set(inspect(session.connection).get_table_names())
        assert tables == set(Base.metadata.tables) | {"alembic_version"}
        if session.dialect.name == "sqlite":
            names = run(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).scalars()
        else:
            names = run(
                text(
                    "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
                    "WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"
                )
            ).scalars()
        found = set(names)
    assert {name.split("_refuse")[0] for name in found} == {
        "entries",
        "incumbents",
        "holdout_uses",
        "model_aliases",
        "promotion_signatures",
        "signing_keys",
    }


def test_the_known_revisions_are_alembics() -> None:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(migration_config())
    walked = [script.revision for script in scripts.walk_revisions()]
    assert tuple(reversed(walked)) == REVISIONS


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l.db", create=True)
    set_revision(ledger, "9999")
    ledger.close()
    for create in (False, True):
        with pytest.raises(LedgerTooNew, match="9999"):
            open_ledger(tmp_path / "l.db", create=create)


@pytest.mark.postgres
def test_a_newer_postgres_database_is_refused(postgres_ledger: Ledger) -> None:
    set_revision(postgres_ledger, "9999")
    with pytest.raises(LedgerTooNew, match="newer ARL"):
        open_ledger(postgres_ledger.address, create=False)


def test_an_older_database_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ledger(tmp_path / "l.db", create=True).close()
    monkeypatch.setattr("ledger.schema.REVISIONS", (*REVISIONS, "9999"))
    with pytest.raises(LedgerTooOld, match="arl db upgrade"):
        open_ledger(tmp_path / "l.db", create=True)


def test_upgrading_twice_changes_nothing(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l.db", create=True)
    engine = create_engine(f"sqlite:///{tmp_path / 'l.db'}")
    upgrade_schema(engine)
    engine.dispose()
    again = open_ledger(tmp_path / "l.db", create=False)
    assert again.id == ledger.id
    again.close()
    ledger.close()


def test_a_missing_ledger_is_not_made_by_reading_it(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="there is no ledger"):
        open_ledger(tmp_path / "l.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_another_kind_of_file_is_refused_unharmed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, but a text of some length\n" * 100)
    before = path.read_bytes()
    with pytest.raises(LedgerUnavailable, match="not an ARL ledger"):
        open_ledger(path, create=True)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE studies (id TEXT)"))
    engine.dispose()
    with pytest.raises(LedgerUnavailable, match="not an ARL ledger"):
        open_ledger(tmp_path / "other.db", create=False)
    with pytest.raises(LedgerUnavailable, match="another program's database"):
        open_ledger(tmp_path / "other.db", create=True)
    raw = sqlite3.connect(tmp_path / "other.db")
    assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("studies",)]
    raw.close()


def test_other_databases_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="neither a SQLite file nor PostgreSQL"):
        open_ledger("mysql://user:secret@host/db", create=False)


@pytest.mark.parametrize(
    "address", ["user:hunter2@127.0.0.1:1/db", "127.0.0.1:1/db?password=hunter2"]
)
def test_a_password_is_never_shown(address: str) -> None:
    with pytest.raises(LedgerUnavailable) as raised:
        open_ledger(f"postgresql://{address}", create=False)
    assert "127.0.0.1" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_opening_an_existing_ledger_does_not_import_alembic(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    open_ledger(path, create=True).close()
    program = (
        "import sys; from ledger.database import open_ledger; "
        f"open_ledger({str(path)!r}, create=True); "
        "sys.exit(any(name.startswith('alembic') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, timeout=60)
    assert done.returncode == 0
