"""Opens what a verb works on, under the settings of this process."""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from controller.settings import read_settings
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


def actor() -> str:
    """Who is asking, for the ledger."""
    uid = os.getuid()
    try:
        return f"cli:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"cli:uid {uid}"
