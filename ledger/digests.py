"""Canonical JSON and the digests built on it."""

import hashlib
import hmac
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ledger.records import IntermediateValue, Params


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no spaces, UTF-8 kept, non-finite numbers refused.

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def json_digest(value: Any) -> str:
    """sha256 of the canonical JSON of `value`."""
    return sha256_hex(canonical_json(value).encode())


def params_digest(params: Params) -> str:
    """Equal for equal parameters whatever their order; 1 and 1.0 are different values."""
    return json_digest(dict(params))


def candidate_digest(
    *,
    params: Params,
    source_digest: str | None,
    environment: str,
    inputs: Mapping[str, str],
) -> str:
    """What makes a candidate the same candidate: never a patch's text, never a seed."""
    return json_digest(
        {
            "params": dict(params),
            "source": source_digest,
            "environment": environment,
            "inputs": dict(inputs),
        }
    )


def storable_float(value: float) -> float | str:
    """A number that JSON can carry: non-finite ones become `nan`, `inf` or `-inf`."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


def values_json(values: Sequence[IntermediateValue]) -> str:
    """The stored form of one batch of intermediate values: `[[step, metric, value], ...]`."""
    return canonical_json([[v.step, v.metric, storable_float(v.value)] for v in values])


def derive_seed(secret: str, *labels: str | int) -> int:
    """A 31-bit seed: HMAC-SHA256(secret, labels). Nobody without the secret can tune to it."""
    message = "/".join(str(label) for label in labels).encode()
    return int.from_bytes(hmac.digest(bytes.fromhex(secret), message, "sha256")[:4], "big") >> 1
