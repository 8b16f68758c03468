"""Collects the row changes of one transaction, runs alike ones together, checks the guards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import bindparam, select

from ledger.conversion_tables import ConversionRow
from ledger.database import WriteSession
from ledger.errors import IllegalTransition
from ledger.statements import Change, Row, Statement
from ledger.tables import Base


@dataclass(frozen=True, slots=True)
class Guard:
    """Which move a guarded update makes, for the message when it does not apply."""

    table: str
    noun: str
    id: str | int
    current: str
    new: str


@dataclass(slots=True)
class _Group:
    statement: Statement
    rows: list[Row] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    touches: set[str | int] = field(default_factory=set)


def _state_of(table: str) -> Statement:
    columns = Base.metadata.tables[table].c
    return Statement(select(columns.state).where(columns.id == bindparam("id")))


_STATES: Final[Mapping[str, Statement]] = {
    name: _state_of(name)
    for name in (
        "studies",
        "trials",
        "attempts",
        "families",
        "commands",
        ConversionRow.__tablename__,
    )
}


class Changes:
    """An ordered list of row changes. Two changes keep their order when they touch one row."""

    def __init__(self, session: WriteSession) -> None:
        self.session = session
        self._groups: list[_Group] = []

    def add(
        self,
        statement: Statement,
        row: Row,
        *touches: str | int | None,
        guard: Guard | None = None,
    ) -> None:
        """Queue one row change. `touches` are the ids of the rows it writes or refers to."""
        ids = {t for t in touches if t is not None}
        group = self._place(statement, ids)
        group.rows.append(row)
        group.touches |= ids
        if guard is not None:
            group.guards.append(guard)

    def apply(
        self, *, before: Sequence[Change] = (), after: Sequence[Change] = ()
    ) -> Sequence[int]:
        """Run everything queued, between these; how many rows each of `after` changed. Raises
        IllegalTransition when a guarded row did not move."""
        groups, self._groups = self._groups, []
        own = [(group.statement, group.rows) for group in groups]
        counts = self.session.run_each([*before, *own, *after])[len(before) :]
        for group, changed in zip(groups, counts, strict=False):
            if group.guards and changed != len(group.rows):
                raise self._explain(group)
        return counts[len(groups) :]

    def _place(self, statement: Statement, ids: set[str | int]) -> _Group:
        """The group of alike changes to join, as long as no later group touches these rows."""
        for group in reversed(self._groups):
            if group.statement is statement:
                return group
            if group.touches & ids:
                break
        group = _Group(statement)
        self._groups.append(group)
        return group

    def _explain(self, group: _Group) -> IllegalTransition:
        """Which row did not move, as far as its present state tells."""
        for guard in group.guards:
            found = self.session.fetch(_STATES[guard.table], {"id": guard.id})
            present = str(found[0][0]) if found else "missing"
            if present != guard.new:
                return IllegalTransition(f"{guard.noun} {guard.id}", present, guard.new)
        first = group.guards[0]
        ids = ", ".join(str(guard.id) for guard in group.guards)
        return IllegalTransition(f"{first.noun} {ids} (one of them)", first.new, first.new)
