"""Asks a server's connection that was idle for a while whether it is still there.

SQLAlchemy's own `pool_pre_ping` asks at every use, which is one round trip in eight of a trial's.
One that was used a moment ago is not asked: when the server went away since, its user is told.
"""

import time
from typing import Any, Final

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

IDLE_S: Final = 1.0
_USED_AT: Final = "arl_used_at"


def ping_the_idle(engine: Engine) -> None:
    """From now on, for every connection of the engine."""

    @event.listens_for(engine, "checkin")
    def note(_connection: Any, record: Any) -> None:
        record.info[_USED_AT] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ask(connection: Any, record: Any, _proxy: object) -> None:
        used_at = record.info.get(_USED_AT)
        if used_at is None or time.monotonic() - used_at < IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            # The pool throws away this one, and all that are older, and connects again.
            raise DisconnectionError(str(error)) from error
