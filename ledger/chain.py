"""The hash chain: each entry's digest covers the one before it."""

from typing import Final

from ledger.digests import sha256_hex

GENESIS: Final = "0" * 64
SERVICE_CHAIN: Final = "service"


def link(previous: str, body: str) -> str:
    """sha256(previous digest || canonical JSON of the entry)."""
    return sha256_hex(previous.encode() + body.encode())
