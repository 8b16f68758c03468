"""Which hosts an attempt may reach, and which addresses nobody may. Pure; standard library only.

One rule for what a study lists: `name` means port 443, `name:port` that port, and `*.name` every
host below it. What is listed may be spoken to over TLS (CONNECT, the server name in its hello
being that host) or, where a program writes an http:// address, in plain HTTP.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

DEFAULT_PORT: Final = 443
RULE: Final = "write a host like example.org, example.org:8443, mirror:80 or *.example.org"

REFUSED: Final = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    *("::/128", "::1/128", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23"),
    *("2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10"),
    *("fec0::/10", "ff00::/8"),
)
"""Private, loopback, link-local, shared, multicast, documentation and reserved ranges, and those
that stand for an IPv4 address (mapped ones are no text that a range can be told by)."""

_GLOBAL_V6: Final = ipaddress.ip_network("2000::/3")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ENTRY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_HOST_CHARACTERS: Final = 253

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Entry(NamedTuple):
    host: str
    """In lower case; an address in its shortest form; of `*.name` only the `.name`."""
    port: int


class BadEntry(ValueError):
    """What is wrong with a listed host: `rule` says why, `remedy` what to write instead."""

    def __init__(self, rule: str, remedy: str = RULE) -> None:
        super().__init__(f"{rule}; {remedy}")
        self.rule = rule
        self.remedy = remedy


def parse_entry(text: str) -> Entry:
    """A listed host. Raises BadEntry."""
    if "/" in text:
        raise BadEntry("a host is no URL: only its name and port are checked")
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise BadEntry("it is no host with an optional port")
    port = int(found["port"] or DEFAULT_PORT)
    if not 0 < port < 65536:
        raise BadEntry("a port is from 1 to 65535")
    return Entry(_parse_host(found["host"]), port)


def _parse_host(host: str) -> str:
    address = as_address(host)
    if address is not None:
        return str(address)
    if not host.isascii():
        raise BadEntry("a host has ASCII letters only", f"write it as {_in_ascii(host)}")
    wild = host.startswith("*.")
    name = as_name(host[2:] if wild else host)
    if name is None:
        raise BadEntry("it is no host name")
    if wild and "." not in name:
        raise BadEntry("it stands for a whole top-level domain", "name the domain below it")
    return f".{name}" if wild else name


def _in_ascii(host: str) -> str:
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return "example.org"


def as_name(text: str) -> str | None:
    """A host name in lower case without the final dot; None when it is none. The last label of
    one is no number: `127.1` and `0x7f000001` are addresses to the resolver."""
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > _HOST_CHARACTERS or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    return None if _NUMERIC.fullmatch(labels[-1]) else name


def as_address(text: str) -> Address | None:
    """An IP address, an IPv6 one in brackets or without; None when it is none."""
    try:
        return ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def parse_ranges(texts: Iterable[str]) -> tuple[Network, ...]:
    """Raises ValueError naming the one that is no range of addresses."""
    return tuple(ipaddress.ip_network(text.strip()) for text in texts)


class Allowed:
    """The hosts that one attempt may reach."""

    def __init__(self, entries: Iterable[str]) -> None:
        """Raises BadEntry."""
        self._entries = frozenset(map(parse_entry, entries))

    @property
    def ports(self) -> Collection[int]:
        return {entry.port for entry in self._entries}

    def covers(self, host: str, port: int) -> bool:
        """Whether `host`, as as_name or as_address gives it, may be reached at `port`."""
        if Entry(host, port) in self._entries:
            return True
        if as_address(host) is not None:
            return False
        labels = host.split(".")
        return any(
            Entry("." + ".".join(labels[start:]), port) in self._entries
            for start in range(1, len(labels))
        )


_REFUSED_NETWORKS: Final = parse_ranges(REFUSED)


def find_refusal(address: Address, open_ranges: Iterable[Network]) -> str | None:
    """Why nobody may reach an address, unless the operator opened its range; None: one may."""
    if any(address in network for network in open_ranges):
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None or address not in _GLOBAL_V6:
            return "not a public address"
    for network in _REFUSED_NETWORKS:
        if address in network:
            return f"in {network}, which is not public"
    return None
