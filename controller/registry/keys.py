"""The key that promotions are signed with: ECDSA on P-256, below ARL_HOME, for its owner alone.

The ledger keeps every public key, so that what a key signed can be checked after it is lost.
"""

import importlib.util
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ledger import writes
from ledger.database import Ledger
from ledger.digests import sha256_hex
from ledger.errors import Conflict, InvalidInput
from ledger.files import disk_full_at, sync_directory, write_all
from ledger.registry_reads import SigningKey, list_keys
from ledger.service_entries import SigningKeyMade

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

FOLDER: Final = "keys"
FILE: Final = "signing.pem"
MODE: Final = 0o600
LIBRARIES: Final = ("cryptography", "model_signing", "OpenSSL", "securesystemslib")


class KeyLost(Conflict):
    """The private key is not where it was."""

    code = "key_lost"


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A private key on disk."""

    path: Path
    id: str
    """sha256 of the public key's PEM."""
    public_pem: str
    key: Any
    """cryptography's own."""


def key_path(home: Path) -> Path:
    return home / FOLDER / FILE


def find_key(home: Path) -> PrivateKey | None:
    """The key on this machine. Raises InvalidInput: it cannot be read, others can read it too, or
    it is no such key."""
    path = key_path(home)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(
            f"{path}: the signing key cannot be read ({error.strerror}): give it to the user that "
            f"ARL runs as (chown -R USER {path.parent}), or set ARL_SIGN=0 to sign nothing"
        ) from error
    if mode & 0o077:
        raise InvalidInput(
            f"{path}: its mode is {mode:04o}, so others may read it: write chmod 600 {path}, and "
            "make another key if somebody has (`arl keys new`)"
        )
    return _loaded(path, content)


def _loaded(path: Path, content: bytes) -> PrivateKey:
    require_libraries()
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path}: it is no private key in PEM without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise InvalidInput(f"{path}: it is no ECDSA key on P-256; `arl keys new` makes one")
    public = public_pem(key)
    return PrivateKey(path, sha256_hex(public.encode()), public, key)


def public_pem(key: "EllipticCurvePrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return public.decode("ascii")


def ensure_key(ledger: Ledger, home: Path, actor: str) -> PrivateKey:
    """The key on this machine, made if no promotion of this ledger was ever to be signed.

    Raises:
        KeyLost: there was one, and it is gone.
        InvalidInput: it cannot be used.
    """
    found = find_key(home)
    with ledger.read() as session:
        known = list_keys(session)
    if found is None:
        if known:
            raise _lost(home, known)
        found = _write(home, replace=False)
    if found.id not in {key.id for key in known}:
        _record(ledger, found, actor)
    return found


def make_key(ledger: Ledger, home: Path, actor: str) -> PrivateKey:
    """Another key from now on; the one before, if it is still there, is deleted. What that one
    signed still verifies."""
    made = _write(home, replace=True)
    _record(ledger, made, actor)
    return made


def _lost(home: Path, known: list[SigningKey]) -> KeyLost:
    return KeyLost(
        f"the signing key {known[0].id[:16]}… is not at {key_path(home)} any more: put it back "
        "from a backup, or make another one with `arl keys new`; what it signed still verifies "
        "with its public key, which the ledger keeps"
    )


def _record(ledger: Ledger, key: PrivateKey, actor: str) -> None:
    entry = SigningKeyMade(key_id=key.id, public_key=key.public_pem, actor=actor)
    try:
        with ledger.write() as session:
            writes.append_service(session, [entry])
    except Conflict:
        return  # another process was faster with the same key


def _write(home: Path, *, replace: bool) -> PrivateKey:
    """Whole or not at all; without `replace` one that another process makes meanwhile stays."""
    require_libraries()
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    path = key_path(home)
    key = ec.generate_private_key(ec.SECP256R1())
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    beside = path.with_name(f".{FILE}.{os.getpid()}")
    with disk_full_at(home):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
        try:
            write_all(fd, content)
            os.fsync(fd)
        finally:
            os.close(fd)
        try:
            if replace:
                os.replace(beside, path)
            else:
                os.link(beside, path)
        except FileExistsError:
            pass
        finally:
            beside.unlink(missing_ok=True)
        sync_directory(path.parent)
    found = find_key(home)
    if found is None:
        raise KeyLost(f"{path} was deleted while it was made")
    return found


def require_libraries() -> None:
    """Raises InvalidInput where the extra that signs and checks is not installed."""
    if missing := _missing():
        raise InvalidInput(
            f"signing and checking signatures need {' and '.join(missing)}: "
            "pip install 'arl[evidence]'"
        )


def has_libraries() -> bool:
    """Whether promotions can be signed here at all."""
    return not _missing()


def _missing() -> list[str]:
    return [name for name in LIBRARIES if importlib.util.find_spec(name) is None]
