"""The tables of an Optuna storage, read and written many rows at a time.

Optuna's own calls cost several statements a trial and hold a whole study in memory. The tables
are its published format: a storage of another version than the installed Optuna's is refused.
"""

import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import optuna
from optuna.exceptions import StorageInternalError
from sqlalchemy import URL, Engine, MetaData, Table, create_engine, event, inspect, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from ledger.database import shown_url
from ledger.errors import InvalidInput

TABLES: Final = (
    "studies",
    "study_directions",
    "study_user_attributes",
    "study_system_attributes",
    "trials",
    "trial_params",
    "trial_values",
    "trial_intermediate_values",
    "trial_user_attributes",
)
METRIC_NAMES: Final = "study:metric_names"
"""The system attribute in which Optuna keeps the objectives' names."""
_SQLITE: Final = b"SQLite format 3\0"


def storage_url(where: str) -> URL:
    """The database of a URL, or of a path to a SQLite file. Raises InvalidInput."""
    if "://" not in where:
        return URL.create("sqlite", database=str(Path(where).absolute()))
    try:
        url = make_url(where)
    except ArgumentError:
        raise InvalidInput(
            "optuna: this is no database URL; write sqlite:///FILE.db or a path"
        ) from None
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise InvalidInput(f"optuna: {shown(url)}: name a file: sqlite:///FILE.db")
        return URL.create("sqlite", database=str(Path(url.database).absolute()))
    return url


def shown(url: URL) -> str:
    """For people: never with a password."""
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{url.database}"
    return shown_url(url)


@contextmanager
def opened_for_reading(url: URL) -> Iterator[tuple[Engine, Mapping[str, Table]]]:
    """The storage's tables; a SQLite file is opened so that nothing can be written to it.

    Raises:
        InvalidInput: there is none, it is damaged, or another version of Optuna wrote it.
    """
    engine = _read_only(url)
    try:
        tables = _tables(engine, url)
        _check_version(engine)
        yield engine, tables
    except (SQLAlchemyError, StorageInternalError, sqlite3.Error) as error:
        raise InvalidInput(f"optuna: {shown(url)} cannot be read: {_short(error)}") from error
    finally:
        engine.dispose()


@contextmanager
def opened_for_writing(
    url: URL,
) -> Iterator[tuple[optuna.storages.RDBStorage, Mapping[str, Table]]]:
    """The storage, made where there is none, and its tables. A new SQLite file is not synced
    before it is whole. Raises InvalidInput."""
    try:
        storage = optuna.storages.RDBStorage(_template(url))
    except (SQLAlchemyError, StorageInternalError, ImportError, RuntimeError) as error:
        raise InvalidInput(f"optuna: {shown(url)} cannot be opened: {_short(error)}") from error
    try:
        yield storage, _tables(storage.engine, url)
    except (SQLAlchemyError, StorageInternalError) as error:
        raise InvalidInput(f"optuna: {shown(url)} cannot be written: {_short(error)}") from error
    finally:
        storage.engine.dispose()


def _template(url: URL) -> str:
    """Optuna takes braces in an address for fields to fill in."""
    return url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")


def _read_only(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url)
        except ImportError as error:
            raise InvalidInput(
                f"optuna: {shown(url)}: its database driver is not installed: {error}"
            ) from error
    path = Path(url.database or "")
    if not path.is_file():
        raise InvalidInput(f"optuna: there is no file {path}: write sqlite:///FILE.db or a path")
    try:
        with path.open("rb") as stream:
            magic = stream.read(len(_SQLITE))
    except OSError as error:
        raise InvalidInput(f"optuna: {path} cannot be read: {error}") from error
    if magic != _SQLITE:
        raise InvalidInput(f"optuna: {path} is no SQLite database: name an Optuna storage")
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(
            f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False
        ),
    )

    @event.listens_for(engine, "connect")
    def trust_nothing(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA query_only=ON")

    return engine


def _tables(engine: Engine, url: URL) -> Mapping[str, Table]:
    missing = sorted(set(TABLES) - set(inspect(engine).get_table_names()))
    if missing:
        raise InvalidInput(
            f"optuna: {shown(url)} has no table {missing[0]}: name an Optuna storage, or upgrade "
            "an old one with `optuna storage upgrade`"
        )
    metadata = MetaData()
    metadata.reflect(engine, only=list(TABLES))
    return {name: metadata.tables[name] for name in TABLES}


def _check_version(engine: Engine) -> None:
    storage_version = "alembic_version"
    if storage_version not in inspect(engine).get_table_names():
        raise InvalidInput("optuna: the storage names no version: `optuna storage upgrade`")
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    known = optuna.storages.RDBStorage("sqlite://").get_head_version()
    if found != known:
        raise InvalidInput(
            f"optuna: the storage has version {found}, the installed Optuna "
            f"{optuna.__version__} has {known}: `optuna storage upgrade` brings it there"
        )


def _short(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error.__cause__ or error
    return " ".join(str(cause).split())[:300]


# --- numbers that a database may refuse, as Optuna stores them ---------------------------------


def stored(value: float) -> tuple[float | None, str]:
    """The column and the type's name beside it."""
    if math.isnan(value):
        return None, "NAN"
    if math.isinf(value):
        return None, "INF_POS" if value > 0 else "INF_NEG"
    return value, "FINITE"


def restored(value: float | None, kind: str) -> float:
    """Raises ValueError for what `stored` never gives."""
    words = {"NAN": math.nan, "INF_POS": math.inf, "INF_NEG": -math.inf}
    if kind in words and value is None:
        return words[kind]
    if kind == "FINITE" and value is not None and math.isfinite(value):
        return float(value)
    raise ValueError(f"{value!r} of type {kind!r} is no stored number")
