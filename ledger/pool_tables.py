"""Tables of what each host's trials hold, who waits for it, and which workers serve the ledger."""

from sqlalchemy import BigInteger, Double, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from ledger.table_base import ID, Base

HOST = String(200)


class HoldRow(Base):
    """What one trial holds of a host, from the commit of its first attempt's intent to that of
    its end. Beside the chain, like a lease: it says what is so now."""

    __tablename__ = "pool_holds"
    trial_id: Mapped[str] = mapped_column(ID, primary_key=True)
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"))
    host: Mapped[str] = mapped_column(HOST)
    micro_cpus: Mapped[int] = mapped_column(BigInteger)
    """Millionths of a processor: their sum is exact."""
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    gpu_ids: Mapped[str] = mapped_column(Text)
    since: Mapped[float] = mapped_column(Double)
    __table_args__ = (
        Index("ix_pool_holds_host", "host"),
        Index("ix_pool_holds_study_id", "study_id"),
    )


class HeldGpuRow(Base):
    """That no GPU of a host is held twice is the database's own rule."""

    __tablename__ = "pool_gpus"
    host: Mapped[str] = mapped_column(HOST, primary_key=True)
    gpu_id: Mapped[str] = mapped_column(String(100), primary_key=True)
    trial_id: Mapped[str] = mapped_column(ID, index=True)


class WantRow(Base):
    """A study's place among those that want a host, as its worker last said."""

    __tablename__ = "pool_wants"
    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    host: Mapped[str] = mapped_column(HOST, index=True)
    owner: Mapped[str] = mapped_column(String(200))
    """The worker that said so; what another holder of the lease said before is void."""
    weight: Mapped[float] = mapped_column(Double)
    priority: Mapped[int] = mapped_column(Integer)
    used: Mapped[float] = mapped_column(Double)
    """Seconds of the whole machine that its ended trials held."""
    expected_s: Mapped[float] = mapped_column(Double)
    """How long a trial of it holds what it holds."""
    waits_since: Mapped[float | None] = mapped_column(Double)
    """None: it wants nothing just now."""
    micro_cpus: Mapped[int] = mapped_column(BigInteger)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    gpus: Mapped[int] = mapped_column(Integer)


class WorkerRow(Base):
    """A worker that takes whatever study has work, so that others leave it a share of them."""

    __tablename__ = "workers"
    owner: Mapped[str] = mapped_column(String(200), primary_key=True)
    host: Mapped[str] = mapped_column(HOST)
    seen_at: Mapped[float] = mapped_column(Double)
