"""Makes the evidence of a promotion: statement, model signature, card, and the entry they rest on.

It is a small tree in the artifact store, named by an entry of the service chain; the artifact
itself is not in it.
"""

import json
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from controller.registry.card import render_card
from controller.registry.envelopes import sign_model, sign_statement, signed_files
from controller.registry.keys import PrivateKey, ensure_key
from controller.registry.pointers import check_standing
from controller.registry.statement import make_statement
from ledger import writes
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger, ReadSession, WriteSession
from ledger.digests import sha256_hex
from ledger.errors import ArtifactCorrupt, Conflict
from ledger.records import Incumbent, Json
from ledger.registry_reads import (
    PromotionSignature,
    SealedPromotion,
    find_sealed,
    origin_of,
    signatures_of,
)
from ledger.service_entries import PromotionSigned

STATEMENT: Final = "statement.dsse.json"
SIGNATURE: Final = "model.sig"
CARD: Final = "card.md"
PROMOTION: Final = "promotion.json"
PUBLIC_KEY: Final = "public_key.pem"
README: Final = "README.md"
FORMAT: Final = 1
_TRIES: Final = 3

_HOW: Final = """\
# Evidence of a promotion

- `promotion.json`: the entry of the ledger by which the model was promoted, as it was hashed
- `card.md`: the same for people
- `statement.dsse.json`: an in-toto statement with SLSA provenance, signed (DSSE)
- `model.sig`: the OpenSSF model signature of `model/`
- `public_key.pem`: the key of both. That it is the promoter's, they have to tell you another way.

With ARL: `arl verify --promotion .` (`--key FILE` for a public key that you trust). Without it:
`python -m model_signing verify key model --signature model.sig --public_key public_key.pem`.
"""


def make_evidence(
    ledger: Ledger, store: ArtifactStore, home: Path, pointer: Incumbent, actor: str
) -> PromotionSignature:
    """Sign a promotion, once more if it was signed before. Slow: it reads the artifact.

    Raises:
        KeyLost, InvalidInput: there is no key to sign with.
        Conflict, NotFound, ArtifactCorrupt: what was promoted is not there any more as it was.
    """
    with ledger.read() as session:
        origin = origin_of(session, pointer)
    sealed = check_standing(ledger, store, origin)
    key = ensure_key(ledger, home, actor)
    files = _signed(store, sealed, key)
    files |= _documents(ledger, store, sealed, key, files)
    manifest = [
        (name, 0o644, len(content), store.put_bytes(content)) for name, content in files.items()
    ]
    tree = store.put_manifest(manifest)
    for _ in range(_TRIES):
        try:
            with ledger.write() as session:
                return _record(session, origin, tree, key, actor)
        except Conflict:
            continue  # somebody else signed it at the same moment
    raise Conflict(f"{origin.model}:{origin.seq} is being signed elsewhere: try again")


def _signed(store: ArtifactStore, sealed: SealedPromotion, key: PrivateKey) -> dict[str, bytes]:
    """The model's signature, once it is over what the ledger says the artifact is."""
    tree = sealed.entry.artifact_digest
    with tempfile.TemporaryDirectory(prefix="arl-evidence-") as directory:
        file = Path(directory, SIGNATURE)
        sign_model(store.checkout(tree), key, file)
        signature = file.read_bytes()
    wanted = {path: digest for path, _, _, digest in store.manifest(tree)}
    if signed_files(signature, key.public_pem) != wanted:
        raise ArtifactCorrupt(f"tree {tree}: its files changed while they were signed")
    return {SIGNATURE: signature}


def _documents(
    ledger: Ledger,
    store: ArtifactStore,
    sealed: SealedPromotion,
    key: PrivateKey,
    signed: Mapping[str, bytes],
) -> dict[str, bytes]:
    made = {
        CARD: card_of(sealed).encode(),
        PROMOTION: promotion_document(sealed, ledger.id),
        README: _HOW.encode(),
    }
    digests = {name: sha256_hex(content) for name, content in {**made, **signed}.items()}
    statement = make_statement(
        sealed.entry,
        study=sealed.chain,
        at=sealed.at,
        ledger=ledger.id,
        version=version("arl"),
        files=store.manifest(sealed.entry.artifact_digest),
        byproducts=digests,
    )
    return {
        **made,
        STATEMENT: sign_statement(statement, key),
        PUBLIC_KEY: key.public_pem.encode(),
    }


def card_of(sealed: SealedPromotion) -> str:
    """The model card: everything in it is in the entry."""
    return render_card(sealed.entry, study=sealed.chain, at=sealed.at, seal=sealed.digest)


def promotion_document(sealed: SealedPromotion, ledger: str) -> bytes:
    """The entry as it was hashed, and its place in the chain."""
    document: dict[str, Json] = {
        "format": FORMAT,
        "ledger": ledger,
        "chain": sealed.chain,
        "seq": sealed.seq,
        "previous": sealed.previous,
        "body": sealed.body,
        "digest": sealed.digest,
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _record(
    session: WriteSession, origin: Incumbent, tree: str, key: PrivateKey, actor: str
) -> PromotionSignature:
    earlier = signatures_of(session, origin.model, [origin.seq]).get(origin.seq, [])
    entry = PromotionSigned(
        model=origin.model,
        seq=origin.seq,
        number=earlier[0].number + 1 if earlier else 1,
        tree=tree,
        key_id=key.id,
        actor=actor,
    )
    writes.append_service(session, [entry])
    return signatures_of(session, origin.model, [origin.seq])[origin.seq][0]


def latest_signature(session: ReadSession, pointer: Incumbent) -> PromotionSignature | None:
    """The newest evidence of what a position's candidate was promoted with."""
    origin = origin_of(session, pointer)
    found = signatures_of(session, origin.model, [origin.seq]).get(origin.seq)
    return found[0] if found else None


def sealed_of(session: ReadSession, pointer: Incumbent) -> SealedPromotion:
    """Raises Conflict."""
    found = find_sealed(session, pointer)
    if found is None:
        raise Conflict(f"{pointer.model}:{pointer.seq}: no entry of its study promoted it")
    return found
