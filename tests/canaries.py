"""Secrets that must be found nowhere but where they belong, and where one looks for them."""

import base64
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import create_engine, inspect, text

from ledger.database import ledger_url

OF_STUDIES: Final = ("ARL_SECRET_LLM", "ARL_SECRET_HOOKS", "ARL_SECRET_JOBS", "ARL_SECRET_UNUSED")
OF_OTHERS: Final = (
    *("ARL_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "PGPASSWORD"),
    *("AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_KEY", "RAY_AUTH_TOKEN"),
)
"""What else a controller's environment may hold."""


class Canaries:
    """One secret by each name, and every form in which it may be met."""

    def __init__(self) -> None:
        names = (*OF_STUDIES, *OF_OTHERS)
        self.environment = {name: f'ca"n-{name[-6:]}/{secrets.token_hex(20)}+' for name in names}
        self._forms: dict[bytes, str] = {}
        for name, value in self.environment.items():
            self.add(name, value)

    def add(self, name: str, secret: str) -> None:
        # Another one, since a watch reads it meanwhile.
        self._forms = {**self._forms, **dict.fromkeys(forms_of(secret), name)}

    def found_in(self, data: bytes) -> set[str]:
        """The names of the secrets that `data` holds, in whatever form."""
        return {name for form, name in self._forms.items() if form in data}


def forms_of(secret: str) -> set[bytes]:
    """As it is, in an address, as JSON writes it, in hexadecimal, and within base64."""
    raw = secret.encode()
    found = {raw, quote(secret, safe="").encode(), json.dumps(secret)[1:-1].encode()}
    found |= {raw.hex().encode(), raw.hex().upper().encode(), repr(secret)[1:-1].encode()}
    for shift in range(3):  # where it begins within what was encoded
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            within = encode(b"\0" * shift + raw + b"\0" * 3)
            found.add(within[4 if shift else 0 : -8])
    return found


def tables_of(ledger: str) -> Iterator[tuple[str, bytes]]:
    """Every row of every table: where it is, and what it says."""
    engine = create_engine(ledger_url(ledger))
    try:
        with engine.connect() as connection:
            for table in inspect(connection).get_table_names():
                for row in connection.execute(text(f'SELECT * FROM "{table}"')).mappings():
                    for column, value in row.items():
                        yield f"{table}.{column}", _bytes(value)
    finally:
        engine.dispose()


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def files_below(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every file: its path, and its content with its name."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield str(path.relative_to(root)), path.read_bytes() + os.fsencode(path.name)


class ProcessWatch:
    """What every process of this machine was started with, seen again and again."""

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._ended = threading.Event()
        self.seen: dict[tuple[str, str, str], set[str]] = {}
        """(pid, arguments or environment, command) → names of secrets."""
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "ProcessWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        known: set[tuple[str, bytes]] = set()
        while not self._ended.wait(0.05):
            for pid in filter(str.isdecimal, os.listdir("/proc")):
                command = _read(f"/proc/{pid}/cmdline")
                if (pid, command) in known:
                    continue
                known.add((pid, command))
                for what in ("cmdline", "environ"):
                    found = self._canaries.found_in(_read(f"/proc/{pid}/{what}"))
                    if found:
                        shown = command.replace(b"\0", b" ").decode(errors="replace")[:200]
                        self.seen.setdefault((pid, what, shown), set()).update(found)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def escaped(places: Iterator[tuple[str, bytes]], canaries: Canaries) -> Mapping[str, set[str]]:
    """Places that hold a secret, with the names of which."""
    found: dict[str, set[str]] = {}
    for place, content in places:
        if names := canaries.found_in(content):
            found.setdefault(place, set()).update(names)
    return found
