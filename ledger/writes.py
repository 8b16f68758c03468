"""The only door to changing the ledger: entries with their row changes, leases, requests."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import and_, bindparam, func, select

from ledger.budgets import BudgetAccount
from ledger.chain import GENESIS, SERVICE_CHAIN
from ledger.database import WriteSession
from ledger.digests import canonical_json, sha256_hex
from ledger.entries import CandidatePromoted, Entry, HoldoutUsed, StudySubmitted
from ledger.errors import BudgetExceeded, Conflict, InvalidInput, StaleFence
from ledger.outbox import (
    claim_notification,
    open_cursor,
    queue_notifications,
    release_notification,
    resend_notification,
    settle_notification,
)
from ledger.pool_writes import (
    change_holds,
    drop_abandoned,
    forget_want,
    forget_worker,
    renew_leases,
    say_wants,
    see_worker,
)
from ledger.project_service import project_service
from ledger.projection import Projection
from ledger.projections import project
from ledger.records import Json, Resource
from ledger.requests import (
    StoredAnswer,
    claim_idempotency_key,
    find_idempotency_key,
    finish_idempotency_key,
    forget_idempotency_keys,
    insert_command,
)
from ledger.sealing import Head, append_entries, seal_entries
from ledger.service_entries import IncumbentSet, ServiceEntry
from ledger.statements import Row, Statement, constant, insert_row
from ledger.states import STUDY_TERMINAL, StudyState
from ledger.study_heads import (
    advance_service,
    advance_study,
    claim_study,
    lock_and_fetch,
    lock_service,
    release_lease,
    renew_lease,
)
from ledger.tables import Base

__all__ = [
    "StoredAnswer",
    "append_service",
    "change_holds",
    "claim_idempotency_key",
    "claim_notification",
    "find_idempotency_key",
    "claim_study",
    "create_study",
    "drop_abandoned",
    "finish_idempotency_key",
    "forget_idempotency_keys",
    "forget_want",
    "forget_worker",
    "insert_command",
    "queue_notifications",
    "record",
    "release_lease",
    "release_notification",
    "renew_lease",
    "renew_leases",
    "resend_notification",
    "say_wants",
    "see_worker",
    "settle_notification",
]

_INCUMBENTS: Final = Base.metadata.tables["incumbents"]
_USES: Final = Base.metadata.tables["holdout_uses"]

_STUDIES: Final = Base.metadata.tables["studies"]

_INSERT_STUDY: Final = insert_row(_STUDIES)
_UNFINISHED: Final = Statement(
    select(_STUDIES.c.id).where(
        _STUDIES.c.name == bindparam("name"),
        and_(*(_STUDIES.c.state != constant(state) for state in sorted(STUDY_TERMINAL))),
    )
)
_USES_SO_FAR: Final = Statement(
    select(func.count()).where(_USES.c.bundle_digest == bindparam("bundle_digest"))
)


def create_study(
    session: WriteSession,
    study_id: str,
    *,
    spec: Mapping[str, Json],
    secret: str,
    budgets: Mapping[Resource, float | None],
    entry: StudySubmitted,
    only_unfinished: bool = False,
) -> None:
    """Write a new study in state `submitted` with its budgets and its chain's first entry.

    `entry.spec_digest` must be the digest of `spec`'s canonical JSON (digests.json_digest).

    Raises:
        InvalidInput: it is not, or a budget is negative.
        Conflict: the id is taken; or, with `only_unfinished`, a study of that name has not ended,
            however close together the two were submitted.
    """
    if only_unfinished:
        _check_name(session, entry.name)
    limits = {resource: limit for resource, limit in budgets.items() if limit is not None}
    for resource, limit in limits.items():
        if not 0 <= limit < float("inf"):
            raise InvalidInput(f"budget.{resource}: {limit} is not a number from 0 upwards")
    spec_text = canonical_json(dict(spec))
    if sha256_hex(spec_text.encode()) != entry.spec_digest:
        raise InvalidInput("spec_digest: it is not the digest of the spec's canonical JSON")
    sealed = replace(
        entry,
        secret_digest=sha256_hex(secret.encode()),
        budgets={str(resource): float(limit) for resource, limit in limits.items()},
    )
    now = session.now()
    head = append_entries(session, study_id, Head(0, GENESIS), [sealed], now)
    session.run(_INSERT_STUDY, [_study_row(study_id, sealed, spec_text, secret, head, now)])
    BudgetAccount.open(session, study_id, limits)
    open_cursor(session, study_id, spec)


def _check_name(session: WriteSession, name: str) -> None:
    lock_service(session)  # on PostgreSQL two submissions would not see each other
    found = session.fetch(_UNFINISHED, {"name": name})
    if found:
        raise Conflict(
            f"study {name} ({found[0][0]}) is not finished, it was submitted just now: "
            f"`arl resume {found[0][0]}` goes on with it, --new starts another of that name"
        )


def _study_row(
    study_id: str, entry: StudySubmitted, spec: str, secret: str, head: Head, now: float
) -> Row:
    return {
        "id": study_id,
        "name": entry.name,
        "state": StudyState.SUBMITTED,
        "reason": None,
        "detail": "",
        "paused_by": None,
        "paused_from": None,
        "spec": spec,
        "spec_digest": entry.spec_digest,
        "bundle_digest": entry.bundle_digest,
        "comparison": entry.comparison,
        "inputs": canonical_json(dict(entry.inputs)),
        "secret": secret,
        "seed": entry.seed,
        "active_s": 0.0,
        "fence": 0,
        "lease_owner": None,
        "lease_expires_at": None,
        "head_seq": head.seq,
        "head_digest": head.digest,
        "created_at": now,
        "ended_at": None,
    }


def record(
    session: WriteSession,
    study_id: str,
    fence: int,
    entries: Sequence[Entry],
    *,
    active_s: float | None = None,
) -> None:
    """Write entries and their row changes, all or nothing, if `fence` is still the study's.

    `active_s` is the study's total wall time so far, pauses excluded.

    Raises:
        NotFound: there is no such study.
        StaleFence: another worker drives it now.
        IllegalTransition: a row is not in the state that its entry moves it from.
        BudgetExceeded: a reservation does not fit, or the bundle's holdout budget is spent.
        Conflict: something was recorded before, or another promotion came first.
        InvalidInput: an entry contradicts itself.
    """
    study, lines = lock_and_fetch(session, study_id, BudgetAccount.query(study_id))
    if study.fence != fence:
        raise StaleFence(f"study {study_id}: fence {fence} is stale, {study.fence} holds it now")
    at = session.now()
    # First, since it refuses text that neither JSON nor a row can carry.
    head, appending = seal_entries(study_id, study.head, entries, at)
    projection = Projection(session, study_id, at, lines)
    for entry in entries:
        if isinstance(entry, HoldoutUsed):
            projection.apply()
            _check_holdout(session, entry)
        project(entry, projection)
    if active_s is not None:
        projection.budgets.set_used(Resource.WALL_S, active_s)
    advancing = advance_study(study_id, fence, head, active_s)
    if projection.finish(before=appending, after=[advancing]) != [1]:
        raise StaleFence(f"study {study_id}: another worker has taken it over")
    promoted = [entry for entry in entries if isinstance(entry, CandidatePromoted)]
    if promoted:
        append_service(session, [_pointer(entry, study_id) for entry in promoted])


def append_service(session: WriteSession, entries: Sequence[ServiceEntry]) -> None:
    """Append to the service chain with its row changes; incumbent pointers move first come first
    served.

    Raises:
        Conflict: another candidate took that place in a model's history; the message names it.
        NotFound: a token that is to be revoked is not there.
    """
    head = lock_service(session)
    at = session.now()
    for entry in entries:
        project_service(session, entry, at)
    advance_service(session, append_entries(session, SERVICE_CHAIN, head, entries, at))


def _pointer(entry: CandidatePromoted, study_id: str) -> IncumbentSet:
    return IncumbentSet(
        model=entry.model,
        seq=entry.incumbent_seq,
        candidate_id=entry.candidate_id,
        study_id=study_id,
        family_id=entry.family_id,
        comparison=entry.comparison,
        approver=entry.approver,
        note=entry.note,
    )


def _check_holdout(session: WriteSession, entry: HoldoutUsed) -> None:
    """Fail closed: a use needs the next number, within the bundle's limit."""
    if entry.use > entry.limit:
        raise BudgetExceeded(
            f"holdout of bundle {entry.bundle_digest[:12]}: all {entry.limit} uses are spent; "
            "raise evaluator.holdout_budget knowingly, or make a new holdout split"
        )
    used = session.fetch(_USES_SO_FAR, {"bundle_digest": entry.bundle_digest})[0][0]
    if entry.use != used + 1:
        raise Conflict(
            f"holdout of bundle {entry.bundle_digest[:12]}: {used} uses are recorded, so the "
            f"next is {used + 1}, not {entry.use}"
        )
