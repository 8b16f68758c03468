"""Tables of conversions and their measurements, beside those of `ledger.tables`."""

from sqlalchemy import Double, ForeignKey, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from ledger.table_base import DIGEST, ID, NAME, Base


class ConversionRow(Base):
    __tablename__ = "conversions"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"))
    number: Mapped[int] = mapped_column(Integer)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.id"), index=True)
    model: Mapped[str] = mapped_column(String(200))
    method: Mapped[str] = mapped_column(NAME)
    settings: Mapped[str] = mapped_column(Text)
    sources: Mapped[str] = mapped_column(Text)
    digests: Mapped[str] = mapped_column(Text)
    actor: Mapped[str] = mapped_column(String(200))
    state: Mapped[str] = mapped_column(NAME)
    reason: Mapped[str | None] = mapped_column(NAME)
    detail: Mapped[str] = mapped_column(Text, default="")
    artifact_digest: Mapped[str | None] = mapped_column(DIGEST)
    evidence: Mapped[str] = mapped_column(Text, default="{}")
    created_at: Mapped[float] = mapped_column(Double)
    ended_at: Mapped[float | None] = mapped_column(Double)
    __table_args__ = (UniqueConstraint("study_id", "number"),)


class MeasurementRow(Base):
    """One per trial that converted: what our own program measured of its model."""

    __tablename__ = "measurements"
    trial_id: Mapped[str] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempts.id"))
    report: Mapped[str] = mapped_column(Text)
