"""SQLAlchemy 2 typed tables; no queries. JSON is stored as the canonical text it was hashed as."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from ledger import pool_tables  # noqa: F401  # its tables, too
from ledger.artifact_tables import ArtifactRow
from ledger.conversion_tables import ConversionRow, MeasurementRow
from ledger.notification_tables import CursorRow, NotificationRow
from ledger.partial_indexes import known_index
from ledger.registry_tables import AliasRow, IncumbentRow, SignatureRow, SigningKeyRow
from ledger.service_tables import IdempotencyRow, LedgerRow, ServiceHeadRow, TokenRow
from ledger.table_base import DIGEST, ID, NAME, NAMING, SEQUENCE, Base

__all__ = [
    "NAMING",
    "AliasRow",
    "ArtifactRow",
    "Base",
    "ConversionRow",
    "CursorRow",
    "IdempotencyRow",
    "IncumbentRow",
    "LedgerRow",
    "MeasurementRow",
    "NotificationRow",
    "ServiceHeadRow",
    "SignatureRow",
    "SigningKeyRow",
    "TokenRow",
]


class StudyRow(Base):
    __tablename__ = "studies"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(String(200), index=True)
    state: Mapped[str] = mapped_column(NAME, index=True)
    reason: Mapped[str | None] = mapped_column(NAME)
    detail: Mapped[str] = mapped_column(Text, default="")
    paused_by: Mapped[str | None] = mapped_column(NAME)
    paused_from: Mapped[str | None] = mapped_column(NAME)
    spec: Mapped[str] = mapped_column(Text)
    spec_digest: Mapped[str] = mapped_column(DIGEST)
    bundle_digest: Mapped[str] = mapped_column(DIGEST)
    comparison: Mapped[str] = mapped_column(DIGEST)
    inputs: Mapped[str] = mapped_column(Text, default="{}")
    secret: Mapped[str] = mapped_column(String(64))
    seed: Mapped[int] = mapped_column(BigInteger)
    active_s: Mapped[float] = mapped_column(Double, default=0.0)
    fence: Mapped[int] = mapped_column(BigInteger, default=0)
    lease_owner: Mapped[str | None] = mapped_column(String(200))
    lease_expires_at: Mapped[float | None] = mapped_column(Double)
    head_seq: Mapped[int] = mapped_column(BigInteger, default=0)
    head_digest: Mapped[str] = mapped_column(DIGEST)
    created_at: Mapped[float] = mapped_column(Double)
    ended_at: Mapped[float | None] = mapped_column(Double)


class BudgetRow(Base):
    """`spent + reserved <= amount_limit` is the database's own rule, at every commit."""

    __tablename__ = "budgets"
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    resource: Mapped[str] = mapped_column(NAME, primary_key=True)
    amount_limit: Mapped[float | None] = mapped_column(Double)
    spent: Mapped[float] = mapped_column(Double, default=0.0)
    reserved: Mapped[float] = mapped_column(Double, default=0.0)
    overrun: Mapped[float] = mapped_column(Double, default=0.0)
    __table_args__ = (
        CheckConstraint(
            "amount_limit IS NULL OR spent + reserved <= amount_limit + 1e-6", name="within_limit"
        ),
        CheckConstraint("spent >= 0 AND reserved >= -1e-6 AND overrun >= 0", name="not_negative"),
    )


class CandidateRow(Base):
    __tablename__ = "candidates"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"))
    digest: Mapped[str] = mapped_column(DIGEST)
    params: Mapped[str] = mapped_column(Text)
    patch: Mapped[str | None] = mapped_column(Text)
    source_digest: Mapped[str | None] = mapped_column(DIGEST)
    parent_id: Mapped[str | None] = mapped_column(ID)
    rationale: Mapped[str] = mapped_column(Text, default="")
    proposer: Mapped[str] = mapped_column(NAME)
    state: Mapped[str] = mapped_column(NAME)
    created_at: Mapped[float] = mapped_column(Double)
    __table_args__ = (UniqueConstraint("study_id", "digest"),)


class TrialRow(Base):
    __tablename__ = "trials"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"))
    number: Mapped[int] = mapped_column(Integer)
    kind: Mapped[str] = mapped_column(NAME)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.id"), index=True)
    state: Mapped[str] = mapped_column(NAME)
    reason: Mapped[str | None] = mapped_column(NAME)
    detail: Mapped[str] = mapped_column(Text, default="")
    seed: Mapped[int] = mapped_column(BigInteger)
    watermark: Mapped[int] = mapped_column(Integer)
    finish_seq: Mapped[int | None] = mapped_column(Integer)
    splits: Mapped[str] = mapped_column(String(64))
    family_id: Mapped[str | None] = mapped_column(ID, index=True)
    stage: Mapped[str | None] = mapped_column(NAME)
    value: Mapped[float | None] = mapped_column(Double)
    verdict: Mapped[str | None] = mapped_column(NAME)
    created_at: Mapped[float] = mapped_column(Double)
    started_at: Mapped[float | None] = mapped_column(Double)
    ended_at: Mapped[float | None] = mapped_column(Double)
    __table_args__ = (
        UniqueConstraint("study_id", "number"),
        UniqueConstraint("study_id", "finish_seq"),
        Index("ix_trials_study_id_outcome", "study_id", "state", "kind", "verdict", "reason"),
        Index("ix_trials_study_id_kind_value", "study_id", "kind", "value"),
        known_index("value", "number"),
        known_index("finish_seq", "kind", "state", "verdict", "value", "number"),
    )


class AttemptRow(Base):
    __tablename__ = "attempts"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"))
    trial_id: Mapped[str | None] = mapped_column(ForeignKey("trials.id"), index=True)
    kind: Mapped[str] = mapped_column(NAME)
    index: Mapped[int] = mapped_column("attempt_index", Integer)
    split: Mapped[str | None] = mapped_column(NAME)
    state: Mapped[str] = mapped_column(NAME)
    reason: Mapped[str | None] = mapped_column(NAME)
    detail: Mapped[str] = mapped_column(Text, default="")
    target: Mapped[str] = mapped_column(NAME)
    handle: Mapped[str | None] = mapped_column(String(200))
    host: Mapped[str] = mapped_column(String(200))
    timeout_s: Mapped[float] = mapped_column(Double)
    cause: Mapped[str | None] = mapped_column(NAME)
    exit_code: Mapped[int | None] = mapped_column(Integer)
    wall_s: Mapped[float | None] = mapped_column(Double)
    cpu_s: Mapped[float | None] = mapped_column(Double)
    max_rss_bytes: Mapped[int | None] = mapped_column(BigInteger)
    gpu_s_reserved: Mapped[float] = mapped_column(Double, default=0.0)
    gpu_s_spent: Mapped[float] = mapped_column(Double, default=0.0)
    created_at: Mapped[float] = mapped_column(Double)
    started_at: Mapped[float | None] = mapped_column(Double)
    ended_at: Mapped[float | None] = mapped_column(Double)
    __table_args__ = (Index("ix_attempts_study_id_state", "study_id", "state"),)


class ValueBatchRow(Base):
    """Intermediate values as they came, one row per batch; `payload` is hashed in the chain."""

    __tablename__ = "value_batches"
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(Integer, primary_key=True)
    trial_id: Mapped[str] = mapped_column(ForeignKey("trials.id"), index=True)
    count: Mapped[int] = mapped_column("value_count", Integer)
    payload: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(DIGEST)


class LatestValueRow(Base):
    """The last value of each metric of a trial, so that lists never read the history."""

    __tablename__ = "latest_values"
    trial_id: Mapped[str] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    metric: Mapped[str] = mapped_column(String(200), primary_key=True)
    step: Mapped[int] = mapped_column(BigInteger)
    value: Mapped[str] = mapped_column(String(32))
    """JSON: a number, or "nan", "inf", "-inf"."""


class EvaluationRow(Base):
    """Accepted once: one evaluation per trial and split."""

    __tablename__ = "evaluations"
    trial_id: Mapped[str] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    split: Mapped[str] = mapped_column(NAME, primary_key=True)
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempts.id"))
    bundle_digest: Mapped[str] = mapped_column(DIGEST, index=True)
    artifact_digest: Mapped[str] = mapped_column(DIGEST)
    value: Mapped[float] = mapped_column(Double)
    scores: Mapped[str] = mapped_column(Text)
    items: Mapped[str | None] = mapped_column(Text)


class DecisionRow(Base):
    __tablename__ = "decisions"
    trial_id: Mapped[str] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    verdict: Mapped[str] = mapped_column(NAME)
    reason: Mapped[str] = mapped_column(NAME)
    compared_with: Mapped[str | None] = mapped_column(ID)
    margin: Mapped[float] = mapped_column(Double)
    noise_floor: Mapped[float] = mapped_column(Double)


class ProposerStateRow(Base):
    """The latest state only."""

    __tablename__ = "proposer_states"
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    first_number: Mapped[int] = mapped_column(Integer)
    digest: Mapped[str] = mapped_column(DIGEST)
    state: Mapped[bytes] = mapped_column(LargeBinary)


class ModelCallRow(Base):
    """One request to a language model: what was asked, what came back, what it cost."""

    __tablename__ = "model_calls"
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    first_number: Mapped[int] = mapped_column(Integer)
    model: Mapped[str] = mapped_column(String(200))
    endpoint: Mapped[str] = mapped_column(String(200))
    outcome: Mapped[str] = mapped_column(NAME)
    prompt_version: Mapped[str] = mapped_column(NAME)
    request: Mapped[str] = mapped_column(Text)
    response: Mapped[str | None] = mapped_column(Text)
    prompt_tokens: Mapped[int] = mapped_column(Integer, default=0)
    completion_tokens: Mapped[int] = mapped_column(Integer, default=0)
    cost_usd: Mapped[float] = mapped_column(Double, default=0.0)
    latency_s: Mapped[float] = mapped_column(Double, default=0.0)
    created_at: Mapped[float] = mapped_column(Double)


class FamilyRow(Base):
    __tablename__ = "families"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"))
    number: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(NAME, index=True)
    reason: Mapped[str | None] = mapped_column(NAME)
    model: Mapped[str] = mapped_column(String(200))
    bundle_digest: Mapped[str] = mapped_column(DIGEST)
    profile: Mapped[str] = mapped_column(Text)
    candidates: Mapped[str] = mapped_column(Text)
    incumbent_id: Mapped[str] = mapped_column(ID)
    pool: Mapped[str] = mapped_column(Text)
    evidence: Mapped[str] = mapped_column(Text, default="{}")
    created_at: Mapped[float] = mapped_column(Double)
    ended_at: Mapped[float | None] = mapped_column(Double)
    __table_args__ = (UniqueConstraint("study_id", "number"),)


class HoldoutUseRow(Base):
    """Uses of a bundle's holdout, across studies; the primary key makes the count exact."""

    __tablename__ = "holdout_uses"
    bundle_digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    use: Mapped[int] = mapped_column("use_number", Integer, primary_key=True)
    family_id: Mapped[str] = mapped_column(ForeignKey("families.id"), unique=True)
    created_at: Mapped[float] = mapped_column(Double)


class CommandRow(Base):
    """What operators ask for. The only rows about a study that others than its worker insert."""

    __tablename__ = "commands"
    id: Mapped[int] = mapped_column(SEQUENCE, primary_key=True, autoincrement=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"))
    verb: Mapped[str] = mapped_column(NAME)
    arguments: Mapped[str] = mapped_column(Text)
    actor: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(NAME)
    """`pending`, `applied` or `refused`."""
    detail: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[float] = mapped_column(Double)
    __table_args__ = (Index("ix_commands_study_id_state", "study_id", "state"),)


class EntryRow(Base):
    """The chain. Triggers refuse every UPDATE and DELETE."""

    __tablename__ = "entries"
    chain: Mapped[str] = mapped_column(ID, primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    kind: Mapped[str] = mapped_column(NAME)
    body: Mapped[str] = mapped_column(Text)
    """Canonical JSON of {"at", "kind", "payload", "seq"}: exactly what was hashed."""
    digest: Mapped[str] = mapped_column(DIGEST)
    __table_args__ = (Index("ix_entries_chain_kind_seq", "chain", "kind", "seq"),)
