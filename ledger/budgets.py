"""The arithmetic of a study's budgets: reserve what is enforced, settle what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, select

from ledger.database import WriteSession
from ledger.errors import BudgetExceeded
from ledger.records import Resource
from ledger.statements import Change, Row, Statement, guarded_update, insert_row
from ledger.tables import Base

TOLERANCE: Final = 1e-6
"""Sums of measured seconds may differ by this much; the table's own rule allows as much."""

_DUST: Final = 1e-9  # What float subtraction leaves of a reservation that was settled.

_TABLE: Final = Base.metadata.tables["budgets"]
_INSERT: Final = insert_row(_TABLE)
_SELECT: Final = Statement(
    select(
        _TABLE.c.resource,
        _TABLE.c.amount_limit,
        _TABLE.c.spent,
        _TABLE.c.reserved,
        _TABLE.c.overrun,
    ).where(_TABLE.c.study_id == bindparam("study_id"))
)
_AMOUNTS: Final = ("amount_limit", "spent", "reserved", "overrun")
_UPDATE: Final = guarded_update(_TABLE, *_AMOUNTS, key="study_id", also_key="resource")


@dataclass(slots=True)
class _Line:
    limit: float | None
    spent: float
    reserved: float
    overrun: float
    changed: bool = False


class BudgetAccount:
    """One study's budget lines inside one transaction: read when first needed, written once.

    Nobody else changes them meanwhile, since the study's head row is locked.
    """

    def __init__(
        self, session: WriteSession, study_id: str, rows: Sequence[tuple[Any, ...]] | None = None
    ) -> None:
        """`rows`: what `query` gave in this transaction."""
        self._session = session
        self._study_id = study_id
        self._loaded = None if rows is None else self._lines(rows)

    @staticmethod
    def query(study_id: str) -> tuple[Statement, Mapping[str, Any]]:
        return _SELECT, {"study_id": study_id}

    @staticmethod
    def _lines(rows: Sequence[tuple[Any, ...]]) -> dict[str, _Line]:
        return {row[0]: _Line(*row[1:]) for row in rows}

    @staticmethod
    def open(session: WriteSession, study_id: str, limits: Mapping[Resource, float]) -> None:
        """Write a new study's lines: every resource is counted, those in `limits` limited."""
        session.run(
            _INSERT,
            [
                {
                    "study_id": study_id,
                    "resource": resource,
                    "amount_limit": limits.get(resource),
                    "spent": 0.0,
                    "reserved": 0.0,
                    "overrun": 0.0,
                }
                for resource in Resource
            ],
        )

    def reserve(self, resource: Resource, amount: float) -> None:
        """Set `amount` aside. Raises BudgetExceeded when there is no room for it."""
        line = self._line(resource)
        if line.limit is not None:
            room = line.limit - line.spent - line.reserved
            if amount > room + TOLERANCE:
                raise BudgetExceeded(
                    f"budget {resource}: {amount:g} asked for, {max(room, 0.0):g} of "
                    f"{line.limit:g} left"
                )
        line.reserved += amount
        line.changed = True

    def settle(self, resource: Resource, reserved: float, measured: float) -> None:
        """Give a reservation back and count what was measured; what does not fit is overrun."""
        line = self._line(resource)
        left = line.reserved - reserved
        line.reserved = 0.0 if abs(left) < _DUST else left
        self._count(line, measured)

    def set_used(self, resource: Resource, used: float) -> None:
        """The total is known (wall time): count it whole, beyond the limit as overrun."""
        line = self._line(resource)
        line.spent = line.overrun = 0.0
        self._count(line, used)

    def set_limit(self, resource: Resource, limit: float | None) -> None:
        """Change the limit; overrun that now fits becomes spent.

        Raises BudgetExceeded when more than `limit` is spent and reserved already.
        """
        line = self._line(resource)
        if limit is not None and line.spent + line.reserved > limit + TOLERANCE:
            raise BudgetExceeded(
                f"budget {resource}: {line.spent + line.reserved:g} is spent or reserved "
                f"already, so the limit may not become {limit:g}"
            )
        line.limit = limit
        overrun, line.overrun = line.overrun, 0.0
        self._count(line, overrun)

    def is_reserved(self, resource: Resource) -> bool:
        return self._line(resource).reserved > 0

    def changes(self) -> list[Change]:
        """What writes the changed lines."""
        rows: list[Row] = [
            {
                "by_study_id": self._study_id,
                "by_resource": resource,
                "amount_limit": line.limit,
                "spent": line.spent,
                "reserved": line.reserved,
                "overrun": line.overrun,
            }
            for resource, line in (self._loaded or {}).items()
            if line.changed
        ]
        return [(_UPDATE, rows)] if rows else []

    def _count(self, line: _Line, measured: float) -> None:
        fits = measured
        if line.limit is not None:
            fits = min(measured, max(0.0, line.limit - line.spent - line.reserved))
        line.spent += fits
        line.overrun += measured - fits
        line.changed = True

    def _line(self, resource: Resource) -> _Line:
        if self._loaded is None:
            self._loaded = self._lines(self._session.fetch(*self.query(self._study_id)))
        return self._loaded[resource]
