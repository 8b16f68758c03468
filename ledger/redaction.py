"""Takes a secret out of what somebody answers who was told it, in every form in which programs
write what they were sent."""

import base64
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

SHOWN: Final = "[secret]"
_LEAST_CHARS: Final = 8
"""A shorter one is a part of many words, and nothing that anybody keeps secret."""


def without_secret(text: str, secret: str | None) -> str:
    """`text` with `[secret]` wherever the secret stood."""
    if not secret or not text:
        return text
    for form in _forms(secret):
        text = text.replace(form, SHOWN)
    return text


def without_secret_in(body: bytes, secret: str | None) -> bytes:
    """The same of a whole answer, before anything is read or cut from it: half a secret would not
    be found again."""
    if not secret or len(secret) < _LEAST_CHARS:
        return body
    text = body.decode("utf-8", "surrogateescape")
    return without_secret(text, secret).encode("utf-8", "surrogateescape")


def without_secret_among(headers: Mapping[str, str], secret: str | None) -> dict[str, str]:
    """The same of headers."""
    return {name: without_secret(value, secret) for name, value in headers.items()}


@lru_cache(maxsize=64)
def _forms(secret: str) -> tuple[str, ...]:
    """The longest first, so that no form leaves the rest of another."""
    found = {secret}
    if len(secret) >= _LEAST_CHARS:
        found |= {form for form in _written(secret) if len(form) >= _LEAST_CHARS}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _written(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogateescape")
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield json.dumps(secret)[1:-1].replace("/", r"\/")
    yield from (repr(secret)[1:-1], repr(raw)[2:-1])
    yield from (quote(raw, safe=""), quote(raw), quote_plus(raw))
    yield from (raw.hex(), raw.hex().upper())
    for before in range(3):  # bytes before it in its group of three
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(bytes(before) + raw + bytes(3)).decode()
            yield whole[4 if before else 0 : -8]
