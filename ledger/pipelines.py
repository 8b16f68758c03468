"""Statements that a PostgreSQL server is sent together, before it has answered the first.

Each of them waits for the network otherwise: some sixty times a trial.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Connection

from ledger.statements import Row


class Pipeline:
    """Of one connection. Statements run in their order; where one fails the transaction is over,
    and the driver's error of that one is raised."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def run_each(self, changes: Sequence[tuple[str, Sequence[Row]]]) -> list[int]:
        """How many rows each changed in all."""
        sent = []
        with self._driver.pipeline():
            for text, rows in changes:
                sent.append([self._execute(text, row) for row in rows])
        return [sum(cursor.rowcount for cursor in cursors) for cursors in sent]

    def fetch_each(
        self, queries: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> list[list[tuple[Any, ...]]]:
        with self._driver.pipeline():
            sent = [self._execute(text, values) for text, values in queries]
        return [list(cursor.fetchall()) for cursor in sent]

    def _execute(self, text: str, values: Mapping[str, Any]) -> Any:
        cursor = self._driver.cursor()
        cursor.execute(text, cast("Any", values))
        return cursor


def find_pipeline(connection: Connection) -> Pipeline | None:
    """None where the database is a file, or the driver's library is too old for it."""
    if connection.dialect.name != "postgresql":
        return None
    import psycopg

    if not psycopg.capabilities.has_pipeline():
        return None
    return Pipeline(connection.connection.dbapi_connection)
