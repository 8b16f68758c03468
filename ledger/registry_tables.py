"""Tables of the model registry: whose pointer was where, names for it, keys, signatures."""

from sqlalchemy import Double, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from ledger.table_base import DIGEST, ID, Base


class IncumbentRow(Base):
    """Append-only history of each model's pointer. A roll back is a new row."""

    __tablename__ = "incumbents"
    model: Mapped[str] = mapped_column(String(200), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True)
    candidate_id: Mapped[str] = mapped_column(ID)
    study_id: Mapped[str] = mapped_column(ID)
    family_id: Mapped[str | None] = mapped_column(ID)
    comparison: Mapped[str] = mapped_column(DIGEST)
    approver: Mapped[str] = mapped_column(String(200))
    note: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[float] = mapped_column(Double)
    rolled_back_to: Mapped[int | None] = mapped_column(Integer)


class AliasRow(Base):
    """Append-only history of what an alias of a model names; the largest revision counts."""

    __tablename__ = "model_aliases"
    model: Mapped[str] = mapped_column(String(200), primary_key=True)
    alias: Mapped[str] = mapped_column(String(64), primary_key=True)
    revision: Mapped[int] = mapped_column(Integer, primary_key=True)
    promotion: Mapped[int | None] = mapped_column(Integer)
    actor: Mapped[str] = mapped_column(String(200))
    note: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[float] = mapped_column(Double)


class SigningKeyRow(Base):
    """Public keys that promotions were signed with; the private ones are never in here."""

    __tablename__ = "signing_keys"
    id: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    public_key: Mapped[str] = mapped_column(Text)
    actor: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[float] = mapped_column(Double)


class SignatureRow(Base):
    """Evidence of a promotion: each time it was signed, the stored tree that was made."""

    __tablename__ = "promotion_signatures"
    model: Mapped[str] = mapped_column(String(200), primary_key=True)
    seq: Mapped[int] = mapped_column(Integer, primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    tree: Mapped[str] = mapped_column(DIGEST)
    key_id: Mapped[str] = mapped_column(DIGEST)
    actor: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[float] = mapped_column(Double)
