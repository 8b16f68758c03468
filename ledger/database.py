"""The ledger's database: how it is opened, its two session types, and its clock."""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError

from ledger.errors import InvalidInput, LedgerUnavailable
from ledger.failures import translated_errors
from ledger.idle_connections import ping_the_idle
from ledger.pipelines import find_pipeline
from ledger.schema import check_revision, create_schema
from ledger.statements import Change, Row, Statement

BUSY_TIMEOUT_S: Final = 30.0
_WRITES: Final = "arl_writes"
_HIDDEN: Final = "***"
_SECRET_NAME: Final = re.compile(r"pass|secret|token|key", re.IGNORECASE)
# A process that is stopped in the middle of a transaction would hold its locks for ever.
_LET_GO: Final = "SET LOCAL idle_in_transaction_session_timeout = '{:.0f}ms'"
_LET_GO_S: Final = "arl_let_go_s"
_LET_GO_WITHIN_S: Final = (1.0, 10.0)
_CLOCK: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"

# WAL with FULL syncs the log at every commit: a commit that returned survives a power cut.
# No mmap: its pages count as the worker's memory, and an I/O error would be a SIGBUS.
_PRAGMAS: Final = (
    "PRAGMA foreign_keys=ON",
    "PRAGMA synchronous=FULL",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-16000",
    "PRAGMA mmap_size=0",
)


class ReadSession:
    """One consistent view of the database. Reads take it; it cannot be handed to a write."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.dialect = connection.dialect
        self._cursor = connection.connection.cursor()
        self._now: float | None = None

    def now(self) -> float:
        """Seconds since the epoch on the database's clock, read once per session."""
        if self._now is None:
            if self.dialect.name == "sqlite":
                self._now = time.time()  # SQLite's clock is this machine's.
            else:
                self._now = float(self.connection.exec_driver_sql(_CLOCK).scalar_one())
        return self._now

    def fetch(
        self, statement: Statement, parameters: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Every row of a compiled SELECT, on the driver's own cursor."""
        self._cursor.execute(statement.text(self.dialect), cast("Any", parameters or {}))
        return list(self._cursor.fetchall())

    def fetch_each(
        self, queries: Sequence[tuple[Statement, Mapping[str, Any]]]
    ) -> list[list[tuple[Any, ...]]]:
        """The rows of several, run in this order; and the clock is read after them, if it was not
        before. A server is sent all of it before it answers."""
        pipeline = find_pipeline(self.connection)
        if pipeline is None:
            return [self.fetch(*query) for query in queries]
        texts = [(statement.text(self.dialect), values) for statement, values in queries]
        if self._now is None:
            texts.append((_CLOCK, {}))
        found = pipeline.fetch_each(texts)
        if self._now is None:
            self._now = float(found.pop()[0][0])
        return found

    def close(self) -> None:
        self._cursor.close()


class WriteSession(ReadSession):
    """One write transaction: everything in it is committed durably, or nothing is."""

    def set_now(self, moment: float) -> None:
        """Rebuilding rows from entries uses the entries' own times."""
        self._now = moment

    def run(self, statement: Statement, rows: Sequence[Row]) -> int:
        """Execute once per row; the number of database rows changed in all."""
        sql = statement.text(self.dialect)
        if len(rows) == 1:
            self._cursor.execute(sql, cast("Any", rows[0]))
        else:
            self._cursor.executemany(sql, cast("Any", rows))
        return self._cursor.rowcount

    def run_each(self, changes: Sequence[Change]) -> list[int]:
        """Several in this order, as `run` does each. A server is sent all of them before it
        answers, so that they cost one round trip."""
        pipeline = find_pipeline(self.connection) if len(changes) > 1 else None
        if pipeline is None:
            return [self.run(statement, rows) for statement, rows in changes]
        return pipeline.run_each([(one.text(self.dialect), rows) for one, rows in changes])


class Ledger:
    """An open ledger. Safe to share between threads; every session is its own transaction."""

    def __init__(self, engine: Engine, where: str) -> None:
        self._engine = engine
        self.address = engine.url.render_as_string(hide_password=False)
        """What open_ledger takes to open it again; may hold a password."""
        self._writer = engine.execution_options(**{_WRITES: True})
        self._reader = engine
        if engine.dialect.name == "postgresql":
            self._reader = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            self._writer = self._writer.execution_options(isolation_level="AUTOCOMMIT")
        self._driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error
        self.where = where
        """The database's file or address, for people; never with a password."""
        self.id = self._read_id()
        self.on_commit: Callable[[], None] = lambda: None
        """Called after each commit of this process, and must be quick."""

    @contextmanager
    def read(self) -> Iterator[ReadSession]:
        """A consistent view that never waits for a writer. Raises LedgerUnavailable."""
        with translated_errors(self.where, self._driver_error), self._reader.begin() as connection:
            session = ReadSession(connection)
            yield session
            session.close()

    @contextmanager
    def write(self) -> Iterator[WriteSession]:
        """One transaction: committed at the end of the block, rolled back when it raises.

        On SQLite it waits for its turn up to BUSY_TIMEOUT_S before the block starts. Raises
        DiskFull, LedgerUnavailable; after the latter on a lost connection the commit may or
        may not have happened, so what was written must be read again, not repeated.
        """
        with translated_errors(self.where, self._driver_error), self._writer.begin() as connection:
            session = WriteSession(connection)
            yield session
            session.close()
        self.on_commit()

    def let_go_within(self, seconds: float) -> None:
        """PostgreSQL cuts off a process that is stopped inside a write after so long, but no
        sooner than after a second and no later than after ten."""
        least, most = _LET_GO_WITHIN_S
        let_go_s = min(max(seconds, least), most)
        self._writer = self._writer.execution_options(**{_LET_GO_S: let_go_s})

    def now(self, session: ReadSession) -> float:
        """Seconds since the epoch on the database's clock."""
        return session.now()

    def close(self) -> None:
        self._engine.dispose()

    def _read_id(self) -> str:
        with self.read() as session:
            found = session.connection.execute(text("SELECT id FROM ledger")).scalars().all()
        if len(found) != 1:
            raise LedgerUnavailable(
                f"{self.where} should hold one ledger id and holds {len(found)}: restore a backup"
            )
        return str(found[0])


def open_ledger(url_or_path: str | Path, *, create: bool) -> Ledger:
    """Open the ledger of a SQLite file or a database URL; with `create`, make it when missing.

    Raises:
        LedgerUnavailable: it does not exist, cannot be reached, or is not an ARL ledger.
        LedgerTooNew, LedgerTooOld: it was written by another version of ARL.
    """
    engine, where = connect(ledger_url(url_or_path), create=create)
    driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error
    try:
        with translated_errors(where, driver_error):
            if create:
                create_schema(engine.execution_options(**{_WRITES: True}), where)
            check_revision(engine, where)
        return Ledger(engine, where)
    except BaseException:
        engine.dispose()
        raise


def ledger_url(url_or_path: str | Path) -> URL:
    """The database URL of a path or URL. Raises InvalidInput for other databases."""
    written = str(url_or_path)
    if "://" not in written:
        return URL.create("sqlite", database=str(Path(written).absolute()))
    try:
        url = make_url(written)
    except ArgumentError:
        raise InvalidInput(
            "ledger: it is not a database URL; write a path, or postgresql://user@host/database"
        ) from None
    backend = url.get_backend_name()
    if backend == "postgres":
        url, backend = url.set(drivername="postgresql"), "postgresql"
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite" or not url.database or url.database == ":memory:":
        raise InvalidInput(
            f"ledger: {shown_url(url)} is neither a SQLite file nor PostgreSQL; "
            "write a path, or postgresql://user@host/database"
        )
    return url


def shown_url(url: URL) -> str:
    """A database's address for people: no password, wherever in it a driver would read one."""
    hidden = {name: _HIDDEN for name in url.query if _SECRET_NAME.search(name)}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def connect(url: URL, *, create: bool) -> tuple[Engine, str]:
    """An engine with ARL's connection settings, and the database's name for people."""
    if url.get_backend_name() == "sqlite":
        return _connect_sqlite(Path(url.database or ""), create=create)
    try:
        engine = create_engine(url, pool_size=4, max_overflow=28)
    except ModuleNotFoundError as error:
        raise LedgerUnavailable(
            "PostgreSQL ledgers need the driver: pip install 'arl[postgres]'"
        ) from error

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get(_WRITES, False):
            let_go_s = connection.get_execution_options().get(_LET_GO_S, _LET_GO_WITHIN_S[1])
            driver: Any = connection.connection.dbapi_connection
            # Without the driver's own transactions both are one message, and one round trip.
            start = "BEGIN; " if driver.autocommit else ""
            try:
                driver.execute(start + _LET_GO.format(let_go_s * 1e3), prepare=False)
            except engine.dialect.loaded_dbapi.Error as error:
                connection.invalidate(error)
                raise

    ping_the_idle(engine)
    return engine, shown_url(url)


def _connect_sqlite(path: Path, *, create: bool) -> tuple[Engine, str]:
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        raise LedgerUnavailable(f"there is no ledger at {path}: `arl run` or `arl init` makes one")
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={
            "timeout": BUSY_TIMEOUT_S,
            "isolation_level": None,
            "check_same_thread": False,
            "cached_statements": 256,
        },
        pool_size=4,
        max_overflow=28,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        _set_wal(connection)
        for pragma in _PRAGMAS:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A deferred transaction that turns to writing may fail at once; an immediate one waits.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine, str(path)


def _set_wal(connection: Any) -> None:
    """Turn on WAL; it is kept in the file, and the busy timeout does not cover the change."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
