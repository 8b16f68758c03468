"""Compares a study's rows in two databases, table by table, in one pass over each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, String, Table, collate, select

from ledger.chain_check import Finding
from ledger.conversion_reads import CONVERSIONS, MEASUREMENTS
from ledger.database import ReadSession
from ledger.rows import (
    ALIASES,
    ARTIFACTS,
    ATTEMPTS,
    BATCHES,
    BUDGETS,
    CANDIDATES,
    COMMANDS,
    DECISIONS,
    EVALUATIONS,
    FAMILIES,
    INCUMBENTS,
    LATEST,
    MODEL_CALLS,
    SIGNATURES,
    SIGNING_KEYS,
    STATES,
    STUDIES,
    TOKENS,
    TRIALS,
    USES,
)

_Key: TypeAlias = tuple[Any, ...]

# Written outside the chain, or checked apart from it.
_IGNORED: Final[Mapping[str, frozenset[str]]] = {
    "studies": frozenset(
        {
            "active_s",
            "fence",
            "head_digest",
            "head_seq",
            "lease_expires_at",
            "lease_owner",
            "secret",
        }
    ),
    "commands": frozenset({"created_at"}),
}

_COMPARED: Final = (
    STUDIES,
    BUDGETS,
    CANDIDATES,
    TRIALS,
    ATTEMPTS,
    BATCHES,
    LATEST,
    ARTIFACTS,
    EVALUATIONS,
    DECISIONS,
    MODEL_CALLS,
    STATES,
    FAMILIES,
    USES,
    CONVERSIONS,
    MEASUREMENTS,
    COMMANDS,
)


def compare_study(real: ReadSession, rebuilt: ReadSession, study_id: str) -> Iterator[Finding]:
    """Every row of the study that is missing, unexpected or different from what the chain says."""
    for table in _COMPARED:
        condition = _belongs_to(table, study_id)
        yield from _compare(table, _rows(real, table, condition), _rows(rebuilt, table, condition))


def compare_service(real: ReadSession, rebuilt: ReadSession) -> Iterator[Finding]:
    """The same for the model registry and the tokens, which the service chain holds."""
    for table in (INCUMBENTS, ALIASES, SIGNING_KEYS, SIGNATURES, TOKENS):
        yield from _compare(table, _rows(real, table), _rows(rebuilt, table))


def _belongs_to(table: Table, study_id: str) -> ColumnElement[bool]:
    if table is STUDIES:
        return STUDIES.c.id == study_id
    if table is COMMANDS:
        return (COMMANDS.c.study_id == study_id) & (COMMANDS.c.state != "pending")
    if "study_id" in table.c:
        return table.c.study_id == study_id
    owner, column = (TRIALS, "trial_id")
    if table is ARTIFACTS:
        owner, column = (ATTEMPTS, "attempt_id")
    elif table is USES:
        owner, column = (FAMILIES, "family_id")
    return table.c[column].in_(select(owner.c.id).where(owner.c.study_id == study_id))


def _rows(
    session: ReadSession, table: Table, condition: ColumnElement[bool] | None = None
) -> Iterator[tuple[_Key, Sequence[Any]]]:
    """(primary key, every column) in an order that both databases agree on."""
    keys = [column.name for column in table.primary_key.columns]
    query = select(table)
    if condition is not None:
        query = query.where(condition)
    order: list[ColumnElement[Any]] = []
    for column in table.primary_key.columns:
        postgres = session.dialect.name == "postgresql" and isinstance(column.type, String)
        order.append(collate(column, "C") if postgres else column)
    positions = [list(table.c.keys()).index(name) for name in keys]
    result = session.connection.execute(query.order_by(*order).execution_options(yield_per=1000))
    for row in result:
        values = tuple(row)
        yield tuple(values[i] for i in positions), values


def _compare(
    table: Table,
    real: Iterator[tuple[_Key, Sequence[Any]]],
    rebuilt: Iterator[tuple[_Key, Sequence[Any]]],
) -> Iterator[Finding]:
    ours, expected = next(real, None), next(rebuilt, None)
    while ours is not None or expected is not None:
        if expected is None or (ours is not None and _before(ours[0], expected[0])):
            assert ours is not None
            yield _finding(table, ours[0], "no entry of the chain put this row here")
            ours = next(real, None)
        elif ours is None or _before(expected[0], ours[0]):
            yield _finding(table, expected[0], "the row that the chain says is missing")
            expected = next(rebuilt, None)
        else:
            yield from _different(table, ours, expected)
            ours, expected = next(real, None), next(rebuilt, None)


def _before(a: _Key, b: _Key) -> bool:
    """Text by its UTF-8 bytes, as both databases order it here."""
    return _bytes(a) < _bytes(b)


def _bytes(key: _Key) -> _Key:
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


def _different(
    table: Table, ours: tuple[_Key, Sequence[Any]], expected: tuple[_Key, Sequence[Any]]
) -> Iterator[Finding]:
    if ours[1] == expected[1]:
        return
    ignored = _IGNORED.get(table.name, frozenset())
    for column, found, wanted in zip(table.c, ours[1], expected[1], strict=True):
        if column.name not in ignored and found != wanted:
            yield _finding(
                table,
                ours[0],
                f"{column.name} is {_shown(found)}, the chain says {_shown(wanted)}",
            )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _finding(table: Table, key: _Key, problem: str) -> Finding:
    return Finding(f"{table.name} {'/'.join(str(part) for part in key)}", problem)
