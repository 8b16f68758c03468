"""Connections to checked addresses only, each read and write of them within a deadline."""

import socket
import ssl
import threading
import time
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

import httpcore

from targets.outbound_addresses import (
    AddressPolicy,
    AddressRefused,
    BoundedResolver,
    Resolver,
    checked_addresses,
)

CONNECT_S: Final = 10.0
DEADLINE: ContextVar[float | None] = ContextVar("arl_outbound_deadline", default=None)
"""Monotonic end of the request that this thread is making: every read and write ends by then,
so that a peer which drips a byte now and then cannot hold it up."""


class GuardedBackend(httpcore.NetworkBackend):
    """Connects by checked addresses, and remembers what is open."""

    def __init__(self, policy: AddressPolicy, resolver: Resolver) -> None:
        self._policy = policy
        self._resolver = BoundedResolver(resolver)
        self._plain = threading.local()
        self._lock = threading.Lock()
        self._plainly = httpcore.SyncBackend()
        self._aborted = False
        self._open: set[GuardedStream] = set()

    @property
    def plain_text(self) -> bool:
        """Whether the request that this thread makes goes without TLS."""
        return bool(getattr(self._plain, "value", True))

    @plain_text.setter
    def plain_text(self, value: bool) -> None:
        self._plain.value = value

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        until = time.monotonic() + min(_left_s(timeout), CONNECT_S)
        try:
            addresses = checked_addresses(host, port, self._policy, self._resolve_until(until))
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        trouble: Exception = httpcore.ConnectTimeout("no time is left to connect")
        for address in addresses:
            if self.plain_text and not self._policy.is_trusted(host, address):
                raise AddressRefused(
                    f"host {host!r}: write https://, since http:// is only for hosts that the "
                    f"operator allows ({self._policy.variable})"
                )
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            try:
                return self.keep(self._plainly.connect_tcp(str(address), port, left_s))
            except httpcore.NetworkError as error:
                trouble = error
            except httpcore.TimeoutException as error:
                trouble = error
        raise trouble

    def abort(self) -> None:
        """Cut every connection, and those that are opened just now."""
        with self._lock:
            self._aborted = True
            for stream in self._open:
                stream.cut()

    def close(self) -> None:
        """Let go of what a request that was under way left open."""
        with self._lock:
            left = list(self._open)
        for stream in left:
            stream.close()

    def _resolve_until(self, until: float) -> Resolver:
        return lambda host, port: self._resolver.resolve(
            host, port, max(until - time.monotonic(), 0.0)
        )

    def keep(self, inner: httpcore.NetworkStream) -> "GuardedStream":
        stream = GuardedStream(inner, self)
        with self._lock:
            self._open.add(stream)
            if self._aborted:
                stream.cut()
        return stream

    def forget(self, stream: "GuardedStream") -> None:
        with self._lock:
            self._open.discard(stream)


class GuardedStream(httpcore.NetworkStream):
    """A connection that keeps the deadline of whoever uses it."""

    def __init__(self, inner: httpcore.NetworkStream, owner: GuardedBackend) -> None:
        self._inner = inner
        self._owner = owner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left_s(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left_s(timeout))

    def close(self) -> None:
        self._owner.forget(self)
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        self._owner.forget(self)
        secured = self._inner.start_tls(ssl_context, server_hostname, _left_s(timeout))
        return self._owner.keep(secured)

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)

    def cut(self) -> None:
        opened = self.get_extra_info("socket")
        if isinstance(opened, socket.socket):
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it was not connected any more


def _left_s(timeout: float | None) -> float:
    """What is left of this thread's request; never 0, which would mean not to wait at all."""
    until = DEADLINE.get()
    left_s = CONNECT_S if timeout is None else timeout
    if until is not None:
        left_s = min(left_s, until - time.monotonic())
    if left_s <= 0:
        raise httpcore.ReadTimeout("no time is left for this request")
    return left_s
