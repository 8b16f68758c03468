"""Tables of the service itself: its ledger, its chain's head, answered requests, tokens."""

from sqlalchemy import BigInteger, Double, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from ledger.table_base import DIGEST, ID, Base


class LedgerRow(Base):
    """One row: which ledger this is."""

    __tablename__ = "ledger"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    created_at: Mapped[float] = mapped_column(Double)


class ServiceHeadRow(Base):
    """Head of the service chain; locked by whoever appends to it."""

    __tablename__ = "service_head"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger)
    digest: Mapped[str] = mapped_column(DIGEST)


class IdempotencyRow(Base):
    __tablename__ = "idempotency_keys"
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    request_digest: Mapped[str] = mapped_column(DIGEST)
    status: Mapped[int | None] = mapped_column(Integer)
    response: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(Double)


class TokenRow(Base):
    """Access tokens, as SHA-256 only."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(ID, primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    digest: Mapped[str] = mapped_column(DIGEST, unique=True)
    scopes: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[float] = mapped_column(Double)
    expires_at: Mapped[float | None] = mapped_column(Double)
    revoked_at: Mapped[float | None] = mapped_column(Double)
