"""HTTP/1.1 connections that are not kept open for a request that never comes."""

import asyncio
import functools
import resource
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_S: Final = 30.0
"""How long the head of a request may take; it may take twice as long if it began between looks."""
FILES: Final = 1024
"""Beside those of event streams: other connections, the ledger's, what is sent."""


DRAINED_BYTES: Final = 8 * 1024 * 1024
"""Of a body that was refused already: who is cut off while sending does not see why."""


class PatientConnection(H11Protocol):
    """One connection. It is closed when a whole interval passes without the head of a request
    becoming whole, however slowly bytes drip, and when a refused body goes on and on."""

    _looking: asyncio.TimerHandle | None = None
    _drained = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._look(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_draining():
            self._drained += len(data)
            if self._drained > DRAINED_BYTES:
                self.transport.close()
                return
        else:
            self._drained = 0
        super().data_received(data)

    def _is_draining(self) -> bool:
        """Whether the rest of a request comes that was answered already."""
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _look(self, last: RequestResponseCycle | None, *, waited: bool = False) -> None:
        is_waiting = self.conn.their_state is h11.IDLE or self._is_draining()
        if is_waiting and waited and self.cycle is last:
            self.transport.close()
            return
        look = functools.partial(self._look, self.cycle, waited=is_waiting)
        self._looking = self.loop.call_later(HEAD_S, look)


def allow_files(streams: int) -> None:
    """Let this process open as many files as its streams need, where it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = streams + FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
