"""Recomputes a server's chains from what it sends, so that its word is not taken for it."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from controller.client.connection import Connection
from ledger.chain import GENESIS, SERVICE_CHAIN
from ledger.chain_check import Finding, wrong_link
from ledger.errors import LedgerUnavailable

_LINKS: Final = 2000

Progress = Callable[[str], None]
"""Called with what is being checked."""


def check_chains(connection: Connection, progress: Progress) -> Iterator[Finding]:
    """The first wrong link of every chain of the server."""
    for chain in [SERVICE_CHAIN, *_studies(connection)]:
        progress(f"chain {chain}")
        finding = check_chain(connection, chain)
        if finding is not None:
            yield finding


def check_chain(connection: Connection, chain: str) -> Finding | None:
    """The first thing wrong with a chain; None where every digest is that of its text and the
    one before, and the last is the head's."""
    seq, digest, after = 0, GENESIS, 0
    while True:
        page = connection.get(f"/chains/{chain}/links", {"after": after, "limit": _LINKS})
        for item in page["items"]:
            body, told = str(item["body"]), str(item["digest"])
            problem = wrong_link(int(item["seq"]), str(item["kind"]), body, told, seq, digest)
            if problem is not None:
                return Finding(f"entries {chain}/{item['seq']}", problem)
            seq, digest = int(item["seq"]), told
        if page["next_after"] is None:
            break
        after = int(page["next_after"])
    head = (int(page["head"]["seq"]), str(page["head"]["digest"]))
    # A study that goes on has grown since: its head is then further than what was read.
    if head != (seq, digest) and head[0] <= seq:
        return Finding(f"entries {chain}/{seq}", "its head row says another end, or digest")
    return None


def check_there(connection: Connection, *, artifacts: bool, progress: Progress) -> list[Finding]:
    """What the server finds wrong with its ledger: rows, sums and files. Raises Conflict while
    it checks for somebody else."""
    last: dict[str, Any] = {}
    asked = {"artifacts": "true" if artifacts else "false"}
    for line in connection.lines("/verify", asked):
        last = json.loads(line)
        if "checking" in last:
            progress(str(last["checking"]))
    if "findings" not in last:
        raise LedgerUnavailable("the server's check was cut off: ask again")
    return [Finding(str(f["where"]), str(f["problem"])) for f in last["findings"]]


def _studies(connection: Connection) -> Iterator[str]:
    cursor: str | None = None
    while True:
        page = connection.get("/studies", {"limit": 200, "cursor": cursor})
        yield from (str(item["study"]) for item in page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return
