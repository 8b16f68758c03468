"""Opens what a verb works on, under the settings of this process."""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from controller.settings import Settings, read_settings
from ledger.database import Ledger, open_ledger

if TYPE_CHECKING:
    from controller.wiring import Service


@contextmanager
def ledger_opened() -> Iterator[Ledger]:
    """The ledger alone, for verbs that read it; quicker than everything."""
    ledger = open_ledger(read_settings().ledger_url, create=False)
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def service_opened(*, create: bool = False) -> Iterator["Service"]:
    """Ledger, store, targets and proposers, for verbs that run or store something."""
    from controller.wiring import build_service

    service = build_service(read_settings(), create=create)
    try:
        yield service
    finally:
        service.close()


def heads_path(settings: Settings) -> Path:
    """Where the ends of the chains are remembered outside the database, for `arl verify`."""
    return settings.heads_path


def remember_heads(service: "Service") -> None:
    """Note where each chain ends now, so that a truncated ledger shows. Raises DiskFull."""
    from ledger.heads import write_heads

    with service.ledger.read() as session:
        write_heads(session, heads_path(service.settings))


def actor() -> str:
    """Who is asking, for the ledger."""
    uid = os.getuid()
    try:
        return f"cli:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"cli:uid {uid}"
