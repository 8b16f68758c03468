"""Signed envelopes (DSSE) and model signatures in the OpenSSF format, made and checked offline."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from controller.registry.keys import PrivateKey, require_libraries
from controller.registry.statement import PAYLOAD_TYPE
from ledger.digests import sha256_hex
from ledger.records import Json

SIGNATURE_TYPE: Final = "https://model_signing/signature/v1.0"
"""Predicate type of a model signature (OpenSSF Model Signing v1.0)."""


class BadSignature(ValueError):
    """What was signed is not what is there, or was signed with another key."""


def sign_statement(statement: Mapping[str, Json], key: PrivateKey) -> bytes:
    """The statement in a DSSE envelope, as JSON."""
    require_libraries()
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    payload = json.dumps(statement, sort_keys=True, allow_nan=False).encode()
    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(key.key, _library_key(key.public_pem)))
    return json.dumps(envelope.to_dict(), indent=1).encode() + b"\n"


def read_statement(envelope: bytes, public_pem: str) -> dict[str, Any]:
    """The payload of a DSSE envelope, once it was signed with that key. Raises BadSignature."""
    try:
        return _opened(json.loads(envelope), public_pem)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadSignature(f"the envelope does not verify: {error}") from error


def key_id(public_pem: str) -> str:
    return sha256_hex(public_pem.encode())


def sign_model(directory: Path, key: PrivateKey, signature: Path) -> None:
    """Hash every file of a model's directory and write the signature of all."""
    require_libraries()
    from model_signing import signing

    config = signing.Config().use_elliptic_key_signer(private_key=key.path)
    config.set_hashing_config(_hashing()).sign(directory, signature)


def verify_model(directory: Path, signature: Path, public_key: Path) -> None:
    """Hash every file again. Raises BadSignature, naming the files."""
    require_libraries()
    from cryptography.exceptions import InvalidSignature
    from model_signing import verifying

    config = verifying.Config().use_elliptic_key_verifier(public_key=public_key)
    try:
        config.set_hashing_config(_hashing()).verify(directory, signature)
    except InvalidSignature as error:
        raise BadSignature("the model's signature was made with another key") from error
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise BadSignature(str(error)) from error


def signed_files(signature: bytes, public_pem: str) -> dict[str, str]:
    """sha256 of each file as a model signature says, once it was signed with that key: for when
    the files' own bytes are hashed elsewhere. Raises BadSignature."""
    try:
        bundle = json.loads(signature)
        payload = _opened(bundle["dsseEnvelope"], public_pem)
        if payload["predicateType"] != SIGNATURE_TYPE:
            raise BadSignature(f"it is a {payload['predicateType']}, no signature of a model")
        resources = payload["predicate"]["resources"]
        if any(one["algorithm"] != "sha256" for one in resources):
            raise BadSignature("its files are not hashed with sha256")
        return {str(one["name"]): str(one["digest"]) for one in resources}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadSignature(f"the model's signature does not verify: {error}") from error


def _opened(envelope: Mapping[str, Any], public_pem: str) -> dict[str, Any]:
    """Any one signature of the key is enough; key ids in the envelope are hints, not trusted."""
    require_libraries()
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import Signature

    key = _library_key(public_pem)
    payload = base64.b64decode(envelope["payload"], validate=True)
    for given in envelope["signatures"]:
        raw = base64.b64decode(given["sig"], validate=True)
        known = {key.keyid: Signature(key.keyid, raw.hex())}
        try:
            Envelope(payload, envelope["payloadType"], known).verify([key], 1)
        except VerificationError:
            continue
        found: dict[str, Any] = json.loads(payload)
        return found
    raise BadSignature(f"it was not signed with key {key.keyid[:16]}…, or was changed since")


def _library_key(public_pem: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    public: Any = load_pem_public_key(public_pem.encode())
    return SSlibKey.from_crypto(public, keyid=key_id(public_pem))


def _hashing() -> Any:
    """Every file: also those that belong to git, which the library leaves out by itself."""
    from model_signing import hashing

    return hashing.Config().set_ignored_paths(paths=[], ignore_git_paths=False)
