"""Which addresses ARL connects to on a study's word: public ones, and what the operator lists."""

import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from ledger.errors import InvalidInput

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver: TypeAlias = Callable[[str, int], Sequence[str]]
"""Addresses of a host, as texts. Raises OSError when there are none."""

LOOPBACK: Final = "localhost,127.0.0.0/8,::1"
"""What an operator's own command line may always name."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_NEVER: Final = tuple(
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "fec0::/10", "64:ff9b:1::/48", "3fff::/20", "5f00::/16")
)
"""Special ranges that not every Python version knows as such."""
_RESOLVE_THREADS: Final = 32


class AddressRefused(InvalidInput):
    """A host has an address that studies may not make ARL connect to."""

    code = "address_refused"


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which hosts may be connected to. The default lets only public addresses through."""

    allow_private: bool = False
    hosts: frozenset[str] = frozenset()
    """Names that may have any address."""
    networks: tuple[Network, ...] = ()
    variable: str = "ARL_HTTP_ALLOW_PRIVATE"
    """The operator's setting that says so."""

    def is_trusted(self, host: str, address: Address) -> bool:
        """Whether the operator vouches for it, also without TLS."""
        if self.allow_private or _plain_host(host) in self.hosts:
            return True
        return any(address in network for network in self.networks)

    def check(self, host: str, address: str) -> Address:
        """The address, if it may be connected to for `host`. Raises AddressRefused."""
        try:
            # A zone (fe80::1%eth0) names an interface of this machine: never public.
            parsed = ipaddress.ip_address(address)
        except ValueError:
            raise AddressRefused(f"host {host!r}: {address!r} is no address") from None
        if self.is_trusted(host, parsed) or _is_public(parsed):
            return parsed
        raise AddressRefused(
            f"host {host!r} has the address {address}, which is private, local or reserved: name "
            f"a public host, or let the operator allow it ({self.variable})"
        )


def check_url(url: str, *, field: str) -> None:
    """Whether it is one that can be asked, whatever its host's addresses. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # What stands there may be a key: it is not repeated.
        raise InvalidInput(f"{field} is no url: write https://host") from None
    if not usable:
        written = "" if any(sign in url for sign in "@?#") else f" {url!r}"
        raise InvalidInput(f"{field}{written}: write https://host or https://host:port")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(f"{field}: remove the user and password, which would be stored")
    if parts.query or parts.fragment:
        raise InvalidInput(f"{field}: write it without ? and #, which often hold keys")


def parse_policy(text: str, *, variable: str = "ARL_HTTP_ALLOW_PRIVATE") -> AddressPolicy:
    """The operator's word: `1` any address, `0` or nothing public ones only, else a list of host
    names, addresses and networks that are allowed as well, separated by commas.

    Raises InvalidInput.
    """
    if text in ("", "0", "1"):
        return AddressPolicy(allow_private=text == "1", variable=variable)
    hosts: set[str] = set()
    networks: list[Network] = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        try:
            networks.append(ipaddress.ip_network(part))
        except ValueError:
            if "/" in part or ":" in part:
                raise InvalidInput(
                    f"{variable}: {part!r}: write 1, 0, or host names and networks "
                    "like localhost,10.1.0.0/16 separated by commas"
                ) from None
            hosts.add(_plain_host(part))
    return AddressPolicy(hosts=frozenset(hosts), networks=tuple(networks), variable=variable)


def checked_addresses(
    host: str, port: int, policy: AddressPolicy, resolve: Resolver
) -> list[Address]:
    """Resolve once, and let through all of the answer or nothing: one private address among
    public ones is an attempt to get past the check.

    Raises AddressRefused, and OSError when the host has no address.
    """
    found = [policy.check(host, address) for address in resolve(host, port)]
    if not found:
        raise OSError(f"host {host} has no address")
    return found


def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says, in its order. Raises OSError."""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class BoundedResolver:
    """A resolver's answers within a time: the system's own has none of its own, and a thread
    that waits for it cannot be ended, only left behind (a bounded number of them)."""

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._slots = threading.BoundedSemaphore(_RESOLVE_THREADS)

    def resolve(self, host: str, port: int, timeout_s: float) -> Sequence[str]:
        """Raises OSError; TimeoutError is one."""
        if not self._slots.acquire(timeout=timeout_s):
            raise TimeoutError(f"host {host}: too many names are being resolved")
        answers: list[Sequence[str]] = []
        errors: list[OSError] = []

        def ask() -> None:
            try:
                answers.append(self._resolve(host, port))
            except OSError as error:
                errors.append(error)
            except UnicodeError as error:
                errors.append(OSError(f"host {host!r} is no host name: {error}"))
            finally:
                self._slots.release()

        asking = threading.Thread(target=ask, name="arl-resolve", daemon=True)
        asking.start()
        asking.join(timeout_s)
        if answers:
            return answers[0]
        raise errors[0] if errors else TimeoutError(f"host {host} was not resolved in time")


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        inner = _embedded(address)
        if inner is not None:
            return _is_public(inner)
    if any(address in network for network in _NEVER):
        return False
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or address.is_loopback
        or address.is_link_local
    )


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that traffic to this one ends at."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or int(address) >> 32 == 0:  # the latter: IPv4-compatible, deprecated
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _plain_host(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()
