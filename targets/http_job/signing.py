"""How both sides of the job protocol sign: HMAC-SHA256 with a secret that never travels.

A request's signature covers method, path, query, body, time, nonce and the service's session. An
answer's covers the request's nonce, so that no answer fits another request. See
docs/job-protocol.md.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from ledger.errors import InvalidInput

TIME: Final = "arl-time"
"""Seconds since 1970 by the sender's clock, three decimals."""
NONCE: Final = "arl-nonce"
SESSION: Final = "arl-session"
"""Names one run of a service: what was signed for an earlier one is worth nothing."""
SIGNATURE: Final = "arl-signature"
OFFSET: Final = "arl-offset"
SIZE: Final = "arl-size"

WINDOW_S: Final = 300.0
"""How far the sender's clock may be from the service's; nonces are remembered for twice as
long."""
SECRET_RULE: Final = "32 to 4096 characters, best from a random generator"
_COVERED: Final = ("content-type", OFFSET, SIZE)
"""Headers of an answer that mean something to the protocol."""


def key_of(secret: str) -> bytes:
    """Raises InvalidInput; the message does not hold the secret."""
    if not 32 <= len(secret) <= 4096:
        raise InvalidInput(f"the secret of the job service: must be {SECRET_RULE}")
    return secret.encode()


def machine_key(key: bytes, machine: str) -> bytes:
    """Of a machine's own service: it learns nothing that helps against another one."""
    return (
        hmac.new(key, f"ARL-JOB-1 machine {machine}".encode(), hashlib.sha256).hexdigest().encode()
    )


def new_nonce() -> str:
    return secrets.token_hex(16)


def request_signature(
    key: bytes, method: str, target: str, body: bytes, headers: Mapping[str, str]
) -> str:
    """`target` is path and query as they are sent, beginning with /v1; `headers` in lower case,
    of which time, nonce and session count."""
    return _sign(
        key,
        "ARL-JOB-1 request",
        method,
        target,
        hashlib.sha256(body).hexdigest(),
        *(headers.get(name, "") for name in (TIME, NONCE, SESSION)),
    )


def answer_signature(
    key: bytes, nonce: str, status: int, body: bytes, headers: Mapping[str, str]
) -> str:
    return _sign(
        key,
        "ARL-JOB-1 answer",
        nonce,
        str(status),
        hashlib.sha256(body).hexdigest(),
        *(headers.get(name, "") for name in _COVERED),
    )


def is_same(given: str, expected: str) -> bool:
    """In constant time."""
    return hmac.compare_digest(given.encode(), expected.encode())


def _sign(key: bytes, *parts: str) -> str:
    # Header values and request targets hold no line ends, so no two lists give the same text.
    return hmac.new(key, "\n".join(parts).encode(), hashlib.sha256).hexdigest()
