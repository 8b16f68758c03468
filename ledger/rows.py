"""Database rows to records: the only place that knows how a record is stored."""

import json
from typing import Any, Final, TypeAlias

from sqlalchemy import Row as DatabaseRow
from sqlalchemy import Table

from ledger.records import (
    Artifact,
    ArtifactRole,
    Attempt,
    AttemptKind,
    BudgetLine,
    Candidate,
    Command,
    CommandVerb,
    Decision,
    EntryRecord,
    Evaluation,
    Family,
    Incumbent,
    PausedBy,
    Resource,
    Split,
    Study,
    Trial,
    TrialKind,
    Verdict,
)
from ledger.states import (
    AttemptState,
    CandidateState,
    FamilyState,
    Reason,
    StudyState,
    TrialState,
)
from ledger.tables import Base

R: TypeAlias = DatabaseRow[Any]

_T: Final = Base.metadata.tables
ALIASES: Final[Table] = _T["model_aliases"]
ARTIFACTS: Final[Table] = _T["artifacts"]
ATTEMPTS: Final[Table] = _T["attempts"]
BATCHES: Final[Table] = _T["value_batches"]
BUDGETS: Final[Table] = _T["budgets"]
CANDIDATES: Final[Table] = _T["candidates"]
COMMANDS: Final[Table] = _T["commands"]
DECISIONS: Final[Table] = _T["decisions"]
ENTRIES: Final[Table] = _T["entries"]
EVALUATIONS: Final[Table] = _T["evaluations"]
FAMILIES: Final[Table] = _T["families"]
INCUMBENTS: Final[Table] = _T["incumbents"]
LATEST: Final[Table] = _T["latest_values"]
MODEL_CALLS: Final[Table] = _T["model_calls"]
SIGNATURES: Final[Table] = _T["promotion_signatures"]
SIGNING_KEYS: Final[Table] = _T["signing_keys"]
STATES: Final[Table] = _T["proposer_states"]
STUDIES: Final[Table] = _T["studies"]
TOKENS: Final[Table] = _T["tokens"]
TRIALS: Final[Table] = _T["trials"]
USES: Final[Table] = _T["holdout_uses"]


def study_from(row: R) -> Study:
    return Study(
        id=row.id,
        name=row.name,
        state=StudyState(row.state),
        reason=Reason(row.reason) if row.reason else None,
        detail=row.detail,
        paused_by=PausedBy(row.paused_by) if row.paused_by else None,
        paused_from=StudyState(row.paused_from) if row.paused_from else None,
        spec=json.loads(row.spec),
        spec_digest=row.spec_digest,
        bundle_digest=row.bundle_digest,
        comparison=row.comparison,
        inputs=json.loads(row.inputs),
        secret=row.secret,
        seed=row.seed,
        active_s=row.active_s,
        fence=row.fence,
        lease_owner=row.lease_owner,
        lease_expires_at=row.lease_expires_at,
        head_seq=row.head_seq,
        head_digest=row.head_digest,
        created_at=row.created_at,
        ended_at=row.ended_at,
    )


def candidate_from(row: R) -> Candidate:
    return Candidate(
        id=row.id,
        study_id=row.study_id,
        digest=row.digest,
        params=json.loads(row.params),
        patch=row.patch,
        source_digest=row.source_digest,
        parent_id=row.parent_id,
        rationale=row.rationale,
        state=CandidateState(row.state),
        proposer=row.proposer,
    )


def trial_from(row: R) -> Trial:
    return Trial(
        id=row.id,
        study_id=row.study_id,
        number=row.number,
        kind=TrialKind(row.kind),
        candidate_id=row.candidate_id,
        state=TrialState(row.state),
        reason=Reason(row.reason) if row.reason else None,
        detail=row.detail,
        seed=row.seed,
        watermark=row.watermark,
        finish_seq=row.finish_seq,
        splits=tuple(Split(name) for name in row.splits.split(",") if name),
        family_id=row.family_id,
        stage=row.stage,
        value=row.value,
        verdict=Verdict(row.verdict) if row.verdict else None,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def attempt_from(row: R) -> Attempt:
    return Attempt(
        id=row.id,
        study_id=row.study_id,
        trial_id=row.trial_id,
        kind=AttemptKind(row.kind),
        index=row.attempt_index,
        split=Split(row.split) if row.split else None,
        state=AttemptState(row.state),
        reason=Reason(row.reason) if row.reason else None,
        detail=row.detail,
        target=row.target,
        handle=row.handle,
        host=row.host,
        timeout_s=row.timeout_s,
        cause=row.cause,
        exit_code=row.exit_code,
        wall_s=row.wall_s,
        cpu_s=row.cpu_s,
        max_rss_bytes=row.max_rss_bytes,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def evaluation_from(row: R) -> Evaluation:
    return Evaluation(
        trial_id=row.trial_id,
        attempt_id=row.attempt_id,
        split=Split(row.split),
        bundle_digest=row.bundle_digest,
        artifact_digest=row.artifact_digest,
        value=row.value,
        scores=json.loads(row.scores),
        items=tuple(json.loads(row.items)) if row.items else (),
    )


def artifact_from(row: R) -> Artifact:
    return Artifact(
        digest=row.digest,
        trial_id=row.trial_id,
        attempt_id=row.attempt_id,
        role=ArtifactRole(row.role),
        files=row.files,
        size_bytes=row.size_bytes,
        released_at=row.released_at,
        release_reason=row.release_reason,
        release_policy=row.release_policy,
    )


def family_from(row: R) -> Family:
    return Family(
        id=row.id,
        study_id=row.study_id,
        number=row.number,
        state=FamilyState(row.state),
        reason=Reason(row.reason) if row.reason else None,
        model=row.model,
        bundle_digest=row.bundle_digest,
        profile=json.loads(row.profile),
        candidates=tuple(json.loads(row.candidates)),
        incumbent_id=row.incumbent_id,
        pool=tuple(json.loads(row.pool)),
        evidence=json.loads(row.evidence),
        created_at=row.created_at,
        ended_at=row.ended_at,
    )


def incumbent_from(row: R) -> Incumbent:
    return Incumbent(
        model=row.model,
        seq=row.seq,
        candidate_id=row.candidate_id,
        study_id=row.study_id,
        family_id=row.family_id,
        comparison=row.comparison,
        approver=row.approver,
        note=row.note,
        created_at=row.created_at,
        rolled_back_to=row.rolled_back_to,
    )


def budget_from(row: R) -> BudgetLine:
    return BudgetLine(
        resource=Resource(row.resource),
        limit=row.amount_limit,
        spent=row.spent,
        reserved=row.reserved,
        overrun=row.overrun,
    )


def command_from(row: R) -> Command:
    return Command(
        id=row.id,
        study_id=row.study_id,
        verb=CommandVerb(row.verb),
        arguments=json.loads(row.arguments),
        actor=row.actor,
        created_at=row.created_at,
    )


def decision_from(row: R) -> Decision:
    return Decision(
        verdict=Verdict(row.verdict),
        reason=Reason(row.reason),
        compared_with=row.compared_with,
        margin=row.margin,
        noise_floor=row.noise_floor,
    )


def entry_from(row: R, previous: str) -> EntryRecord:
    body = json.loads(row.body)
    return EntryRecord(
        chain=row.chain,
        seq=row.seq,
        kind=row.kind,
        payload=body["payload"],
        previous=previous,
        digest=row.digest,
        at=body["at"],
    )
