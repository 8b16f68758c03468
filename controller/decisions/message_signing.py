"""How a message to a webhook is signed, so that its receiver knows whose it is and how old."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from ledger.errors import InvalidInput

_PREFIX: Final = "whsec_"


def signing_key(secret: str, name: str) -> bytes:
    """What signs: the bytes behind whsec_, which are base64, or the text itself. Raises
    InvalidInput, which does not repeat the secret."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{name}: what follows whsec_ is no base64") from None
    if not key:
        raise InvalidInput(f"{name}: nothing follows whsec_")
    return key


def signed_headers(message_id: str, at: int, body: bytes, key: bytes | None) -> Mapping[str, str]:
    """As www.standardwebhooks.com has them; without a key nothing vouches for the message."""
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at)}
    if key is not None:
        signed = f"{message_id}.{at}.".encode() + body
        digest = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        headers["webhook-signature"] = f"v1,{digest}"
    return headers
