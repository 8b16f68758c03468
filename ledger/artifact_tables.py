"""The table of what trials left in the artifact store."""

from sqlalchemy import BigInteger, Double, ForeignKey, Integer
from sqlalchemy.orm import Mapped, mapped_column

from ledger.partial_indexes import released_index
from ledger.table_base import DIGEST, NAME, Base


class ArtifactRow(Base):
    """Let go, it keeps its digest: the bytes may be gone, and the row says why."""

    __tablename__ = "artifacts"
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    role: Mapped[str] = mapped_column(NAME, primary_key=True)
    digest: Mapped[str] = mapped_column(DIGEST, index=True)
    trial_id: Mapped[str | None] = mapped_column(ForeignKey("trials.id"), index=True)
    files: Mapped[int] = mapped_column(Integer)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[float] = mapped_column(Double)
    released_at: Mapped[float | None] = mapped_column(Double)
    release_reason: Mapped[str | None] = mapped_column(NAME)
    release_policy: Mapped[str | None] = mapped_column(NAME)
    __table_args__ = (released_index(),)
