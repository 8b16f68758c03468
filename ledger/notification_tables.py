"""Tables of what webhooks are told: how far each study was looked at, and every notification."""

from sqlalchemy import BigInteger, Double, ForeignKey, Index, Integer, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from ledger.table_base import ID, NAME, Base


class CursorRow(Base):
    """Of a study that has webhooks: its entries up to `seq` became notifications."""

    __tablename__ = "notify_cursors"
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger)


_WAITS = text("state = 'waiting'")


class NotificationRow(Base):
    """One event for one webhook. Beside the chain: nothing of a study depends on it."""

    __tablename__ = "notifications"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"))
    seq: Mapped[int] = mapped_column(BigInteger)
    """Of the entry that it is made of."""
    event: Mapped[str] = mapped_column(NAME)
    webhook: Mapped[str] = mapped_column(String(2000))
    secret: Mapped[str | None] = mapped_column(String(100))
    """The name of ARL's environment variable; never what it holds."""
    body: Mapped[str] = mapped_column(Text)
    """What is sent, the same each time."""
    state: Mapped[str] = mapped_column(NAME)
    """`waiting`, `delivered` or `dead`."""
    tries: Mapped[int] = mapped_column(Integer)
    status: Mapped[int | None] = mapped_column(Integer)
    """HTTP's, of the last try; None where no answer came."""
    detail: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(Double)
    queued_at: Mapped[float] = mapped_column(Double)
    """When it was last put in the queue of its webhook; a queue goes in this order."""
    next_at: Mapped[float] = mapped_column(Double)
    tried_at: Mapped[float | None] = mapped_column(Double)
    done_at: Mapped[float | None] = mapped_column(Double)
    lease_owner: Mapped[str | None] = mapped_column(String(200))
    lease_expires_at: Mapped[float | None] = mapped_column(Double)
    __table_args__ = (
        Index("ix_notifications_created_at", "created_at", "id"),
        Index("ix_notifications_study_id_created_at", "study_id", "created_at", "id"),
        Index("ix_notifications_state", "state"),
        Index(
            "ix_notifications_waiting",
            "study_id",
            "webhook",
            "queued_at",
            "seq",
            sqlite_where=_WAITS,
            postgresql_where=_WAITS,
        ),
    )
