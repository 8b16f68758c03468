"""Reads a ledger and what lies around it with a database driver, hashlib and /proc alone.

Nothing here imports ARL: what it finds cannot be wrong in the same way as the code that wrote it.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GENESIS = "0" * 64


@dataclass(frozen=True)
class Fact:
    """One entry of a chain, as its stored text says."""

    chain: str
    seq: int
    kind: str
    at: float
    payload: dict[str, Any]


@dataclass(frozen=True)
class Witness:
    """What can be known of one ledger from outside."""

    address: str
    """A SQLite file, or the URL of a PostgreSQL database."""
    home: Path

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Of one SELECT, on a connection of its own."""
        if not self.address.startswith("postgres"):
            path = self.address.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, timeout=30.0)) as connection:
                return connection.execute(query).fetchall()
        import psycopg

        plain = self.address.replace("postgresql+psycopg://", "postgresql://", 1)
        with psycopg.connect(plain) as server:
            return server.execute(query.encode()).fetchall()

    def studies(self) -> list[str]:
        return [row[0] for row in self.rows("SELECT id FROM studies ORDER BY created_at, id")]

    def facts(self, study_id: str | None = None) -> list[Fact]:
        """Entries in order, of one chain or of every one."""
        which = "" if study_id is None else f" WHERE chain = '{study_id}'"
        found = self.rows(f"SELECT chain, seq, body FROM entries{which} ORDER BY chain, seq")
        return [_fact(chain, seq, body) for chain, seq, body in found]

    # --- the chain ---------------------------------------------------------------------------

    def broken_links(self) -> Iterator[str]:
        """Every chain recomputed from its stored texts, and compared with its head."""
        stored = self.rows("SELECT id, head_seq, head_digest FROM studies")
        stored += self.rows("SELECT 'service', seq, digest FROM service_head")
        heads = {row[0]: row[1:] for row in stored}
        ends: dict[str, tuple[int, str]] = {}
        query = "SELECT chain, seq, kind, body, digest FROM entries ORDER BY chain, seq"
        for chain, seq, kind, body, digest in self.rows(query):
            before = ends.get(chain, (0, GENESIS))
            written = json.loads(body)
            if seq != before[0] + 1:
                yield f"{chain}: {seq} comes after {before[0]}"
            if sha256(before[1].encode() + body.encode()) != digest:
                yield f"{chain}: entry {seq} is not what was hashed"
            if (written["seq"], written["kind"]) != (seq, kind):
                yield f"{chain}: entry {seq} says that it is {written['seq']}, {written['kind']}"
            ends[chain] = (seq, digest)
        for chain, head in heads.items():
            if tuple(head) != ends.get(chain, (0, GENESIS)):
                yield f"{chain}: its head is {head}, its last entry {ends.get(chain)}"

    # --- stored files ------------------------------------------------------------------------

    def damaged_files(self) -> Iterator[str]:
        """Trees that the ledger names and whose bytes have another digest, or are not there
        although not every chain that named them let go of them."""
        facts = [f for f in self.facts() if f.kind == "artifact_released"]
        let_go = {(f.payload["attempt_id"], f.payload["role"]): f.payload["digest"] for f in facts}
        rows = self.rows("SELECT attempt_id, role, digest FROM artifacts")
        named = {digest for attempt, role, digest in rows if (attempt, role) not in let_go}
        scored = {tree for (tree,) in self.rows("SELECT artifact_digest FROM evaluations") if tree}
        for tree in sorted(named | scored - set(let_go.values())):
            listed = self._stored(tree)
            if listed is None:
                yield f"tree {tree} is missing or damaged"
                continue
            for path, _, size, digest in json.loads(listed):
                content = self._stored(digest)
                if content is None or len(content) != size:
                    yield f"{path} of tree {tree} is missing or damaged"

    def _stored(self, digest: str) -> bytes | None:
        path = self.home / "artifacts" / "objects" / digest[:2] / digest[2:]
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        return content if sha256(content) == digest else None

    # --- what was left -----------------------------------------------------------------------

    def leftovers(self) -> Iterator[str]:
        """Directories of attempts, half-written and half-deleted files."""
        for place in ("local/attempts", "bubblewrap/attempts", "artifacts/incoming"):
            for name in sorted(os.listdir(self.home / place)) if self._has(place) else ():
                yield f"{place}/{name}"
        for place in ("local/trash", "bubblewrap/trash"):
            for name in sorted(os.listdir(self.home / place)) if self._has(place) else ():
                pid, _, rest = name.partition("-")  # a live process keeps bare directories there
                if str(started_at(pid)) != rest.partition("-")[0]:
                    yield f"{place}/{name}"

    def _has(self, place: str) -> bool:
        return (self.home / place).is_dir()


def _fact(chain: str, seq: int, body: str) -> Fact:
    written = json.loads(body)
    return Fact(chain, seq, written["kind"], written["at"], written["payload"])


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- processes -------------------------------------------------------------------------------


def started_at(pid: int | str) -> int | None:
    """When a live process started, in ticks since boot; None when there is none."""
    try:
        fields = Path("/proc", str(pid), "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def attempt_processes(home: Path) -> Iterator[tuple[int, str]]:
    """Live processes whose environment says that they belong to an attempt of this home."""
    place = f"{home}/".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
            state = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        names = [v[12:] for v in variables if v.startswith(b"ARL_ATTEMPT=")]
        if names and state not in b"ZX" and any(place in v for v in variables):
            yield int(entry), names[0].decode()
