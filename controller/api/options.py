"""How the API is served: where it listens, for whom, and what it refuses by itself."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
STATIC: Final = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    host: str = "127.0.0.1"
    port: int = 8420
    names: tuple[str, ...] = ()
    """Further host names under which clients reach this server."""
    allow_local: bool = False
    """Whether a study that came over HTTP may run without a sandbox."""
    body_bytes: int = 2 * 1024 * 1024
    """Of a JSON body."""
    piece_bytes: int = 8 * 1024 * 1024
    """Of an uploaded file, or a piece of one."""
    body_s: float = 120.0
    """How long a body may take to arrive."""
    streams: int = 1000
    """Event streams open at once."""
    static: Path = STATIC
    """The dashboard, as it was built."""

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def is_known(self, name: str) -> bool:
        """Whether a request for this host name is for us: what a page on the web makes a browser
        ask of its own name, resolved to this machine, is not (DNS rebinding)."""
        if name in self.names:
            return True
        if self.is_loopback:
            return name in LOOPBACK_NAMES
        return not self.names or name == self.host


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
