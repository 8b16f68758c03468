"""Core statements compiled once and run on the driver's own cursor.

A trial is some thirty small statements. Building each one's execution context in SQLAlchemy
costs more than SQLite needs to run it, so the hot writes keep the compiled text.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Dialect, Table, bindparam, insert, literal_column, update
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.elements import ColumnElement

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = Mapping[str, Value]

_NAMED: Final = {"sqlite": "named", "postgresql": "pyformat"}


class Statement:
    """One INSERT, UPDATE or SELECT with named parameters."""

    def __init__(self, clause: ClauseElement, columns: Iterable[str] | None = None) -> None:
        self._clause = clause
        self._columns = None if columns is None else list(columns)
        self._texts: dict[str, str] = {}

    def text(self, dialect: Dialect) -> str:
        """The SQL for this dialect, with `:name` or `%(name)s` parameters."""
        found = self._texts.get(dialect.name)
        if found is None:
            style = _NAMED[dialect.name]
            named = type(dialect)(paramstyle=style)  # type: ignore[call-arg]  # every real one does
            compiled = self._clause.compile(dialect=named, column_keys=self._columns)
            found = self._texts[dialect.name] = str(compiled)
        return found


Change: TypeAlias = tuple[Statement, Sequence[Row]]
"""A statement and what it is run with, once per row."""


def constant(value: str) -> ColumnElement[Any]:
    """A state's name inside a statement; never text from outside."""
    if not value.replace("_", "").isalnum():
        raise ValueError(f"{value!r} may not stand inside a statement")
    return literal_column(f"'{value}'")


def insert_row(table: Table) -> Statement:
    """INSERT of every column; each row must give them all."""
    return Statement(insert(table), [column.name for column in table.columns])


def guarded_update(
    table: Table,
    *columns: str,
    key: str = "id",
    also_key: str | None = None,
    constants: Mapping[str, str] | None = None,
    state: str | None = None,
) -> Statement:
    """UPDATE one row of the study by `by_<key>`, only while its state is the expected one.

    `columns` take their values from parameters of the same name, `constants` are written into
    the statement. The expected state is `state`; a state of "" means parameter `by_state`.
    """
    clause = update(table).where(table.c[key] == bindparam(f"by_{key}"))
    if also_key is not None:
        clause = clause.where(table.c[also_key] == bindparam(f"by_{also_key}"))
    if key != "study_id" and "study_id" in table.c:
        clause = clause.where(table.c.study_id == bindparam("by_study_id"))
    if state is not None:
        expected = constant(state) if state else bindparam("by_state")
        clause = clause.where(table.c.state == expected)
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    values.update({name: constant(value) for name, value in (constants or {}).items()})
    return Statement(clause.values(values))
