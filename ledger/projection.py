"""The transaction that entries are being projected into."""

from collections.abc import Sequence
from typing import Any

from ledger.budgets import BudgetAccount
from ledger.changes import Changes, Guard
from ledger.database import WriteSession
from ledger.digests import sha256_hex
from ledger.errors import InvalidInput
from ledger.statements import Change, Row, Statement
from ledger.states import S


class Projection:
    """One study's row changes at one moment, queued until `apply`."""

    def __init__(
        self,
        session: WriteSession,
        study_id: str,
        at: float,
        budgets: Sequence[tuple[Any, ...]] | None = None,
    ) -> None:
        """`budgets`: what BudgetAccount.query gave in this transaction."""
        self.session = session
        self.study_id = study_id
        self.at = at
        """Seconds since the epoch: the entry's own time, so that a rebuild gives equal rows."""
        self.budgets = BudgetAccount(session, study_id, budgets)
        self._changes = Changes(session)

    def add(self, statement: Statement, row: Row, *touches: str | int | None) -> None:
        """Queue a row change; `touches` are the ids of the rows it writes or refers to."""
        self._changes.add(statement, row, *touches)

    def move(
        self, statement: Statement, row: Row, noun: str, row_id: str | int, move: tuple[S, S]
    ) -> None:
        """Queue a guarded change of state; IllegalTransition on apply unless it was `move[0]`."""
        current, new = move
        guard = Guard(_TABLES[noun], noun, row_id, current, new)
        self._changes.add(statement, row, row_id, guard=guard)

    def settle_command(self, statement: Statement, row: Row, command_id: int) -> None:
        """Queue a command's move out of `pending`; each is settled once."""
        guard = Guard("commands", "command", command_id, "pending", str(row["state"]))
        self._changes.add(statement, row, f"command {command_id}", guard=guard)

    def apply(self) -> None:
        """Run everything queued, except the budget lines."""
        self._changes.apply()

    def finish(
        self, *, before: Sequence[Change] = (), after: Sequence[Change] = ()
    ) -> Sequence[int]:
        """Run everything queued and write the changed budget lines, between these; how many rows
        each of `after` changed."""
        lines = self.budgets.changes()
        return self._changes.apply(before=before, after=[*lines, *after])[len(lines) :]


_TABLES = {
    "study": "studies",
    "trial": "trials",
    "attempt": "attempts",
    "family": "families",
    "conversion": "conversions",
}


def printable(text: str) -> str:
    """PostgreSQL's text cannot hold NUL."""
    return text.replace("\x00", "\ufffd")


def check_unsealed(field: str, content: bytes, digest: str | None) -> None:
    """Raise InvalidInput unless an unsealed field's bytes have the digest that is sealed."""
    found = sha256_hex(content)
    if found != digest:
        raise InvalidInput(f"{field}: its sha256 is {found}, the entry says {digest}")
