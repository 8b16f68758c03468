"""Which version of the tables a database holds, and bringing it to this one's."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine, inspect, text

from ledger.errors import LedgerTooNew, LedgerTooOld, LedgerUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
"""Every migration, oldest first; alembic itself is imported only to apply them."""

_POSTGRES_LOCK: Final = 0x41524C  # "ARL": one process at a time creates or upgrades


def migration_config(connection: Connection | None = None) -> "Config":
    """Alembic's configuration for the migrations that were installed with this ARL."""
    from alembic.config import Config

    import migrations

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.attributes["connection"] = connection
    return config


def find_revision(connection: Connection) -> str | None:
    """The revision a database is at; None when it holds no ARL tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def create_schema(engine: Engine, where: str) -> None:
    """Make the tables of a new database in one transaction; an existing ledger is left alone.

    Raises:
        LedgerUnavailable: the SQLite file is another program's database.
    """
    with engine.connect() as connection:
        if find_revision(connection) is not None:
            return
        if engine.dialect.name == "sqlite" and inspect(connection).get_table_names():
            raise LedgerUnavailable(f"{where} is another program's database: name a new file")
    upgrade_schema(engine, only_new=True)


def upgrade_schema(engine: Engine, *, only_new: bool = False) -> None:
    """Apply the missing migrations in one transaction. Several processes may try at once."""
    from alembic import command

    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
        if only_new and find_revision(connection) is not None:
            return
        command.upgrade(migration_config(connection), "head")


def check_revision(engine: Engine, where: str) -> None:
    """Raise LedgerTooNew, LedgerTooOld or LedgerUnavailable unless this ARL can use it."""
    with engine.connect() as connection:
        revision = find_revision(connection)
    if revision is None:
        raise LedgerUnavailable(f"{where} is not an ARL ledger: `arl run` or `arl init` makes one")
    if revision not in REVISIONS:
        raise LedgerTooNew(
            f"{where} is at revision {revision}, which this ARL does not know (its newest is "
            f"{REVISIONS[-1]}): use the newer ARL that wrote it"
        )
    if revision != REVISIONS[-1]:
        raise LedgerTooOld(
            f"{where} is at revision {revision}, and this ARL needs {REVISIONS[-1]}: "
            "make a backup, then run `arl db upgrade`"
        )
