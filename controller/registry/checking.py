"""Checks promotions offline: entry, chain, artifact, signatures and card, naming what is wrong."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controller.registry.card import render_card
from controller.registry.envelopes import (
    BadSignature,
    key_id,
    read_statement,
    signed_files,
    verify_model,
)
from controller.registry.making import (
    CARD,
    PROMOTION,
    PUBLIC_KEY,
    SIGNATURE,
    STATEMENT,
    card_of,
    promotion_document,
)
from controller.registry.statement import MODEL_FOLDER, byproduct_digests, subject_digests
from ledger.artifacts import ArtifactStore
from ledger.chain import link
from ledger.chain_check import Finding, check_chain
from ledger.database import Ledger, ReadSession
from ledger.digests import sha256_hex
from ledger.entries import CandidatePromoted
from ledger.errors import ArtifactCorrupt, InvalidInput, NotFound
from ledger.files import hash_file
from ledger.heads import current_heads
from ledger.hydration import parse_entry
from ledger.records import Incumbent, Json
from ledger.registry_reads import (
    PromotionSignature,
    SealedPromotion,
    find_sealed,
    list_keys,
    origin_of,
    signatures_of,
)
from ledger.trial_parts import load_evaluations

_NOT_FILES = frozenset({"model"})


@dataclass(slots=True)
class Checked:
    """What came of looking at one promotion."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    signatures: int = 0
    """How many of its signings verify."""
    key: str | None = None
    """Id of the key that signed it last."""
    key_is_known: bool = False
    """Whether that key is the ledger's here, or the one that was asked for."""


def check_promotions(
    ledger: Ledger, store: ArtifactStore | None, pointers: list[Incumbent]
) -> Iterator[Checked]:
    """Each position with everything that the ledger and the store hold of it. Without `store`
    neither artifacts nor signatures are read. Changes nothing."""
    with ledger.read() as session:
        keys = {key.id: key.public_key for key in list_keys(session)}
        heads = {head.chain: head for head in current_heads(session)}
        chains: dict[str, Finding | None] = {}
        for pointer in pointers:
            found = Checked(f"{pointer.model}:{pointer.seq}")
            sealed = find_sealed(session, pointer)
            if sealed is None:
                found.findings.append(Finding(found.name, "no entry of its study promoted it"))
                yield found
                continue
            if sealed.chain not in chains:
                head = heads.get(sealed.chain)
                chains[sealed.chain] = check_chain(session, sealed.chain, head)
            if (broken := chains[sealed.chain]) is not None:
                found.findings.append(broken)
            found.findings += _entry_findings(session, found.name, pointer, sealed)
            if store is not None:
                found.findings += _artifact_findings(store, found.name, sealed)
                signed = _signatures(session, pointer)
                found.findings += _signed_findings(store, found, sealed, signed, keys, ledger.id)
            yield found


def _signatures(session: ReadSession, pointer: Incumbent) -> list[PromotionSignature]:
    origin = origin_of(session, pointer)
    return signatures_of(session, origin.model, [origin.seq]).get(origin.seq, [])


def _entry_findings(
    session: ReadSession, name: str, pointer: Incumbent, sealed: SealedPromotion
) -> Iterator[Finding]:
    entry = sealed.entry
    if link(sealed.previous, sealed.body) != sealed.digest:
        yield Finding(f"entries {sealed.chain}/{sealed.seq}", "it is not what was hashed")
    for what, here, there in (
        ("candidate", pointer.candidate_id, entry.candidate_id),
        ("family", pointer.family_id, entry.family_id),
        ("comparison", pointer.comparison, entry.comparison),
    ):
        if here != there:
            yield Finding(f"incumbents {name}", f"{what} is {here}, the entry says {there}")
    yield from _score_findings(session, name, entry)


def _score_findings(
    session: ReadSession, name: str, entry: CandidatePromoted
) -> Iterator[Finding]:
    """Whether the scores in the lineage, which the card shows, are those of the runs it names."""
    runs = entry.lineage.get("runs")
    if not isinstance(runs, Mapping):
        return
    for side, listed in runs.items():
        trials = [str(run) for run in listed] if isinstance(listed, list) else []
        scored = load_evaluations(session, trials)
        for split, shown in _shown_scores(entry.lineage, side):
            found = [
                e.value for trial in trials for e in scored.get(trial, ()) if e.split == split
            ]
            if found != shown:
                yield Finding(
                    name, f"{split} scores of the {side} are {found}, its entry says {shown}"
                )


def _shown_scores(links: Mapping[str, Json], side: str) -> Iterator[tuple[str, Json]]:
    holdout = links.get("holdout")
    for split, both in holdout.items() if isinstance(holdout, Mapping) else ():
        score = both.get(side) if isinstance(both, Mapping) else None
        if isinstance(score, Mapping):
            yield split, score.get("values")
    search = links.get("search")
    if side == "candidate" and isinstance(search, Mapping):
        yield "search", search.get("values")


def _artifact_findings(
    store: ArtifactStore, name: str, sealed: SealedPromotion
) -> Iterator[Finding]:
    try:
        store.verify(sealed.entry.artifact_digest)
    except (ArtifactCorrupt, NotFound) as error:
        yield Finding(f"{name} artifact", str(error))


def _signed_findings(
    store: ArtifactStore,
    found: Checked,
    sealed: SealedPromotion,
    signed: list[PromotionSignature],
    keys: Mapping[str, str],
    ledger_id: str,
) -> Iterator[Finding]:
    if not signed:
        yield Finding(found.name, "it is not signed: `arl evidence` signs it")
        return
    found.key, found.key_is_known = signed[0].key_id, signed[0].key_id in keys
    for signature in signed:
        where = f"{found.name} signature {signature.number}"
        public = keys.get(signature.key_id)
        if public is None:
            yield Finding(where, f"the ledger has no key {signature.key_id[:16]}…")
            continue
        try:
            files = {
                path: store.read_bytes(digest)
                for path, _, _, digest in store.manifest(signature.tree)
            }
            wrong = list(_evidence_findings(where, files, public))
            wrong += _own_findings(where, files, sealed, store, public, ledger_id)
        except (ArtifactCorrupt, NotFound) as error:
            wrong = [Finding(where, str(error))]
        found.signatures += not wrong
        yield from wrong


def _own_findings(
    where: str,
    files: Mapping[str, bytes],
    sealed: SealedPromotion,
    store: ArtifactStore,
    public: str,
    ledger_id: str,
) -> Iterator[Finding]:
    """What only the ledger and the store can say of evidence."""
    if files.get(PROMOTION) != promotion_document(sealed, ledger_id):
        yield Finding(f"{where} {PROMOTION}", "it is not the ledger's entry")
    if files.get(CARD) != card_of(sealed).encode():
        yield Finding(f"{where} {CARD}", "it does not say what the ledger says")
    try:
        wanted = {p: d for p, _, _, d in store.manifest(sealed.entry.artifact_digest)}
        if signed_files(files.get(SIGNATURE, b""), public) != wanted:
            yield Finding(f"{where} {SIGNATURE}", "it is over other files than the artifact's")
    except BadSignature:
        return  # said already


def _evidence_findings(where: str, files: Mapping[str, bytes], public: str) -> Iterator[Finding]:
    """What evidence says of itself: signatures, what is beside them, the entry and its card."""
    try:
        statement = read_statement(files.get(STATEMENT, b""), public)
        signed, subjects = byproduct_digests(statement), subject_digests(statement)
    except ValueError as error:
        yield Finding(f"{where} {STATEMENT}", str(error))
        return
    for name, digest in sorted(signed.items()):
        if name not in files:
            yield Finding(f"{where} {name}", "it is missing")
        elif sha256_hex(files[name]) != digest:
            yield Finding(f"{where} {name}", "it was changed since it was signed")
    try:
        own = signed_files(files.get(SIGNATURE, b""), public)
        stated = {
            name.removeprefix(f"{MODEL_FOLDER}/"): digest
            for name, digest in subjects.items()
            if name != MODEL_FOLDER
        }
        if own != stated:
            yield Finding(f"{where} {SIGNATURE}", "the statement is about other files")
    except BadSignature as error:
        yield Finding(f"{where} {SIGNATURE}", str(error))
    yield from _document_findings(where, files, subjects)


def _document_findings(
    where: str, files: Mapping[str, bytes], subjects: Mapping[str, str]
) -> Iterator[Finding]:
    try:
        found = json.loads(files[PROMOTION])
        body = json.loads(found["body"])
        entry = parse_entry(body["kind"], body["payload"])
        is_linked = link(found["previous"], found["body"]) == found["digest"]
    except (KeyError, ValueError, TypeError, AttributeError, InvalidInput) as error:
        yield Finding(f"{where} {PROMOTION}", f"it is no entry of a ledger: {error!r}")
        return
    if not isinstance(entry, CandidatePromoted) or not is_linked:
        yield Finding(f"{where} {PROMOTION}", "it is not the entry that was hashed")
        return
    if subjects.get(MODEL_FOLDER) != entry.artifact_digest:
        yield Finding(f"{where} {STATEMENT}", "it is about another artifact than the entry")
    card = render_card(entry, study=found["chain"], at=body["at"], seal=found["digest"])
    if files.get(CARD) != card.encode():
        yield Finding(f"{where} {CARD}", "it does not say what the entry says")


# --- a directory, anywhere ---------------------------------------------------------------------


def check_directory(directory: Path, keys: Mapping[str, str], trusted: str | None) -> Checked:
    """Evidence that was written to a directory, with or without the model beside it.

    Args:
        keys: public keys that are known here, by id.
        trusted: the public key that it must be signed with.
    """
    found = Checked(str(directory))
    files: dict[str, bytes] = {}
    for path in sorted(directory.iterdir()):
        if path.name not in _NOT_FILES and path.is_file() and not path.is_symlink():
            files[path.name] = path.read_bytes()
    public = trusted or files.get(PUBLIC_KEY, b"").decode("utf-8", "replace")
    found.key = key_id(public)
    found.key_is_known = trusted is not None or found.key in keys
    found.findings += _evidence_findings(found.name, files, public)
    model = directory / MODEL_FOLDER
    if model.is_dir() and not found.findings:
        found.findings += _model_findings(model, files, public)
    found.signatures = int(not found.findings)
    return found


def _model_findings(model: Path, files: Mapping[str, bytes], public: str) -> Iterator[Finding]:
    """Each changed, added or missing file by its name; then the format's own library."""
    wanted = signed_files(files[SIGNATURE], public)
    there = {p.relative_to(model).as_posix(): p for p in model.rglob("*") if not p.is_dir()}
    for name in sorted(wanted.keys() | there.keys()):
        where = f"{MODEL_FOLDER}/{name}"
        if name not in there:
            yield Finding(where, "it is missing")
        elif name not in wanted:
            yield Finding(where, "it was added: the signature does not know it")
        elif there[name].is_symlink() or hash_file(there[name], where)[0] != wanted[name]:
            yield Finding(where, "its bytes changed since it was signed")
    with tempfile.TemporaryDirectory(prefix="arl-verify-") as scratch:
        key, signature = Path(scratch, PUBLIC_KEY), Path(scratch, SIGNATURE)
        key.write_text(public, encoding="ascii")
        signature.write_bytes(files[SIGNATURE])
        try:
            verify_model(model, signature, key)
        except BadSignature as error:
            yield Finding(MODEL_FOLDER, str(error))
