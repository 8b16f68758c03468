"""Moves a model's pointer back, and its aliases: compare and set; and adds notes."""

from ledger import reads, writes
from ledger.artifacts import ArtifactStore
from ledger.chain import link
from ledger.chain_check import check_chain
from ledger.database import Ledger, ReadSession, WriteSession
from ledger.errors import ArtifactCorrupt, Conflict, NotFound
from ledger.heads import current_heads
from ledger.records import Incumbent
from ledger.registry_reads import SealedPromotion, find_sealed, latest_alias
from ledger.service_entries import AliasSet, IncumbentSet, PromotionNoted


def check_standing(ledger: Ledger, store: ArtifactStore, pointer: Incumbent) -> SealedPromotion:
    """What was promoted is still there to be used: its entry, its study's chain and every byte
    of its artifact. Slow: it reads the artifact.

    Raises Conflict: the entry, the chain or the artifact is not what it was, or not there.
    """
    with ledger.read() as session:
        sealed = _sealed(session, pointer)
    name = f"{pointer.model}:{pointer.seq}"
    tree = sealed.entry.artifact_digest
    try:
        store.verify(tree)
    except NotFound as error:
        raise Conflict(
            f"{name}: its artifact {tree} is not in the store any more; nothing was changed"
        ) from error
    except ArtifactCorrupt as error:
        raise Conflict(
            f"{name}: the stored bytes of its artifact {tree} changed (`arl verify --promotion "
            f"{name}` says which); nothing was changed here"
        ) from error
    return sealed


def _sealed(session: ReadSession, pointer: Incumbent) -> SealedPromotion:
    name = f"{pointer.model}:{pointer.seq}"
    sealed = find_sealed(session, pointer)
    if sealed is None or sealed.entry.candidate_id != pointer.candidate_id:
        raise Conflict(f"{name}: no entry of study {pointer.study_id} promoted it")
    if link(sealed.previous, sealed.body) != sealed.digest:
        raise Conflict(f"{name}: entries {sealed.chain}/{sealed.seq} is not what was hashed")
    heads = {head.chain: head for head in current_heads(session)}
    finding = check_chain(session, sealed.chain, heads.get(sealed.chain))
    if finding is not None:
        raise Conflict(f"{name}: {finding}; `arl verify` says more")
    return sealed


def roll_back(
    session: WriteSession, target: Incumbent, *, expected: int, actor: str, note: str
) -> IncumbentSet:
    """Give the pointer to an earlier position's candidate again: a new position of the history.
    Call `check_standing` before. Later studies on the model have to beat that one.

    Args:
        expected: the position that the caller saw the pointer at.

    Raises:
        Conflict: it is elsewhere by now, or that candidate has it already.
    """
    latest = reads.latest_incumbent(session, target.model)
    present = 0 if latest is None else latest.seq
    if latest is None or present != expected:
        raise Conflict(
            f"model {target.model}: its incumbent is number {present} now, not {expected}: "
            "somebody moved it meanwhile; look again, and ask again if you still want to"
        )
    if (latest.candidate_id, latest.family_id) == (target.candidate_id, target.family_id):
        raise Conflict(f"model {target.model}: number {target.seq} is its incumbent already")
    entry = IncumbentSet(
        model=target.model,
        seq=present + 1,
        candidate_id=target.candidate_id,
        study_id=target.study_id,
        family_id=target.family_id,
        comparison=target.comparison,
        approver=actor,
        note=note,
        rolled_back_to=target.seq,
    )
    writes.append_service(session, [entry])
    return entry


def set_alias(
    session: WriteSession,
    *,
    model: str,
    alias: str,
    promotion: int | None,
    expected: int | None,
    actor: str,
    note: str,
) -> AliasSet:
    """Let an alias name another promotion, or none.

    Args:
        expected: what the caller saw it name; None: nothing.

    Raises:
        Conflict: it names something else by now.
        NotFound: the model has no such promotion.
    """
    latest = latest_alias(session, model, alias)
    present = None if latest is None else latest.promotion
    if present != expected:
        raise Conflict(
            f"model {model}: alias {alias} names {_shown(present)} now, not {_shown(expected)}: "
            "somebody changed it meanwhile; look again, and ask again if you still want to"
        )
    if present == promotion:
        raise Conflict(f"model {model}: alias {alias} names {_shown(present)} already")
    entry = AliasSet(
        model=model,
        alias=alias,
        revision=1 if latest is None else latest.revision + 1,
        promotion=promotion,
        actor=actor,
        note=note,
    )
    writes.append_service(session, [entry])
    return entry


def add_note(session: WriteSession, pointer: Incumbent, *, note: str, actor: str) -> None:
    """Write down something about a promotion; what was written stays."""
    entry = PromotionNoted(model=pointer.model, seq=pointer.seq, note=note, actor=actor)
    writes.append_service(session, [entry])


def _shown(promotion: int | None) -> str:
    return "nothing" if promotion is None else f"number {promotion}"
