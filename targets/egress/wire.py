"""What a program says to its proxy, read strictly: whatever is not plainly understood is refused.

Pure; standard library only.
"""

import re
from typing import Final, NamedTuple

from targets.egress.names import as_address, as_name

HEAD_BYTES: Final = 32 * 1024
HELLO_BYTES: Final = 64 * 1024
BODY_BYTES: Final = 1024**3

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_METHOD: Final = re.compile(r"[A-Z]{1,16}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PLACE: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
)
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z]+)://(?P<place>[^/?#]*)(?P<path>[/?][!-~]*)?")
_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"upgrade", "host", "content-length"}
)
"""Headers that concern one connection only, or that are written anew."""
_RECORD_BYTES: Final = 16 * 1024 + 256
_HELLO_RECORDS: Final = 8
_SERVER_NAME: Final = 0
_ENCRYPTED_HELLO: Final = 0xFE0D


class Unreadable(Exception):
    """What was said is not understood, or not to be passed on; one line says why."""

    def __init__(self, why: str, asked: "Asked | None" = None) -> None:
        super().__init__(why)
        self.asked = asked
        """As much as was understood."""


class Asked(NamedTuple):
    method: str
    host: str
    port: int
    head: bytes = b""
    """To send on; empty for CONNECT."""
    body_bytes: int = 0


def parse_request(head: bytes) -> Asked:
    """A request's head, up to its empty line. Raises Unreadable."""
    method, target, headers = _split(head)
    if method == "CONNECT":
        asked = _parse_place(method, target, None)
        _check_host(headers, asked)
        return asked
    url = _URL.fullmatch(target)
    if url is None:
        raise Unreadable(f"{method} needs a whole URL")
    asked = _parse_place(method, url["place"], 80)
    if url["scheme"].lower() != "http":
        raise Unreadable("only http:// URLs are passed on; the others need CONNECT", asked)
    _check_host(headers, asked)
    path = url["path"] or "/"
    path = path if path.startswith("/") else f"/{path}"
    body_bytes = _body_bytes(headers, asked)
    return asked._replace(head=_head(asked, path, headers, body_bytes), body_bytes=body_bytes)


def _split(head: bytes) -> tuple[str, str, list[tuple[str, str]]]:
    first, *lines = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise Unreadable("no HTTP request")
    if not _METHOD.fullmatch(parts[0]):
        raise Unreadable("no HTTP method")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Unreadable("a header that is none")
        headers.append((name.lower(), value.strip(" \t")))
    return parts[0], parts[1], headers


def _parse_place(method: str, text: str, port: int | None) -> Asked:
    found = _PLACE.fullmatch(text)
    if found is None or (port is None and found["port"] is None):
        raise Unreadable("no host and port" if port is None else "no host")
    number = int(found["port"] or port or 0)
    address, name = as_address(found["host"]), as_name(found["host"])
    if not 0 < number < 65536:
        raise Unreadable("a port that is none")
    if address is None and name is None:
        raise Unreadable("a host that is no name", Asked(method, found["host"], number))
    return Asked(method, str(address) if name is None else name, number)


def _check_host(headers: list[tuple[str, str]], asked: Asked) -> None:
    hosts = [value for name, value in headers if name == "host"]
    if not hosts:
        return
    found = _PLACE.fullmatch(hosts[0])
    host = "" if found is None else found["host"]
    said = as_name(host) or str(as_address(host))
    if len(hosts) > 1 or said != asked.host:
        raise Unreadable("its Host header names another host", asked)


def _body_bytes(headers: list[tuple[str, str]], asked: Asked) -> int:
    """One length or none: two would be read differently by different servers."""
    if any(name == "transfer-encoding" for name, _ in headers):
        raise Unreadable("a body without a Content-Length", asked)
    lengths = [value for name, value in headers if name == "content-length"]
    if not lengths:
        return 0
    if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,12}", lengths[0]):
        raise Unreadable("a Content-Length that is none", asked)
    if int(lengths[0]) > BODY_BYTES:
        raise Unreadable(f"a body of more than {BODY_BYTES} bytes", asked)
    return int(lengths[0])


def _head(asked: Asked, path: str, headers: list[tuple[str, str]], body_bytes: int) -> bytes:
    """The request for the host itself, the only one on its connection."""
    dropped = {*_HOP}
    for name, value in headers:
        if name == "connection":
            dropped |= {token.strip().lower() for token in value.split(",")}
    host = f"[{asked.host}]" if ":" in asked.host else asked.host
    lines = [
        f"{asked.method} {path} HTTP/1.1",
        f"Host: {host}" if asked.port == 80 else f"Host: {host}:{asked.port}",
        *(f"{name}: {value}" for name, value in headers if name not in dropped),
        "Connection: close",
    ]
    if body_bytes or asked.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {body_bytes}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def find_server_name(data: bytes) -> str | None:
    """The server name in the TLS hello that `data` begins with, empty when the hello has none;
    None while it is not whole yet. Raises Unreadable."""
    hello = _client_hello(data)
    if hello is None:
        return None
    try:
        return _server_name(hello)
    except IndexError:
        raise Unreadable("a TLS hello that is none") from None


def _client_hello(data: bytes) -> bytes | None:
    """The body of the first handshake message, out of its records; None: more is needed."""
    message, at = b"", 0
    for _ in range(_HELLO_RECORDS):
        size = _record_size(data, at)
        if size is None:
            return None
        message += data[at + 5 : at + 5 + size]
        wanted = _hello_size(message)
        if wanted is not None and len(message) >= wanted:
            return message[4:wanted]
        at += 5 + size
        if len(data) < at:
            return None
    raise Unreadable("a TLS hello in too many pieces")


def _record_size(data: bytes, at: int) -> int | None:
    """Of the TLS record that begins there; None: not told yet. Raises Unreadable."""
    if data[at : at + 2] not in (b"", b"\x16", b"\x16\x03"):
        raise Unreadable("no TLS")
    if len(data) < at + 5:
        return None
    size = _number(data, at + 3)
    if not 0 < size <= _RECORD_BYTES:
        raise Unreadable("no TLS")
    return size


def _hello_size(message: bytes) -> int | None:
    """Of the handshake message; None: not told yet. Raises Unreadable."""
    if message[:1] not in (b"", b"\x01"):
        raise Unreadable("no TLS hello")
    if len(message) < 4:
        return None
    size = 4 + int.from_bytes(message[1:4], "big")
    if size > HELLO_BYTES:
        raise Unreadable("a TLS hello that is too long")
    return size


def _server_name(hello: bytes) -> str:
    at = 34  # version and random
    at += 1 + hello[at]  # session
    at += 2 + _number(hello, at)  # ciphers
    at += 1 + hello[at]  # compression
    names = []
    end = at + 2 + _number(hello, at) if at < len(hello) else at
    at += 2
    while at < end:
        kind, size = _number(hello, at), _number(hello, at + 2)
        if kind == _ENCRYPTED_HELLO:
            raise Unreadable("a TLS hello that hides its server name")
        if kind == _SERVER_NAME:
            names.append(hello[at + 4 : at + 4 + size])
        at += 4 + size
    if not names:
        return ""
    name = names[0]
    if len(names) > 1 or _number(name, 0) != len(name) - 2 or name[2] != 0:
        raise Unreadable("a TLS hello with more than one server name")
    if _number(name, 3) != len(name) - 5:
        raise Unreadable("a TLS hello with more than one server name")
    return name[5:].decode("latin-1").lower().removesuffix(".")


def _number(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]
