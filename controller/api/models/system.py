"""The machine and its workers on the wire."""

from typing import Literal

from pydantic import Field

from controller.api.models.sharing import HeldOut, WantOut
from controller.api.models.wire import ISO, Iso, Number, Out, example
from ledger.states import AttemptState, StudyState


class LeaseOut(Out):
    """A worker's claim on a study."""

    model_config = example(
        {
            "study": "st-7f3a",
            "name": "arithmetic-grpo",
            "state": "running",
            "fence": 3,
            "expires_at": ISO,
            "is_valid": True,
        }
    )
    study: str
    name: str
    state: StudyState
    fence: int
    expires_at: Iso | None
    is_valid: bool


class WorkerOut(Out):
    """Who drives studies, or waits for some."""

    model_config = example(
        {"owner": "node1/4711/99", "state": "idle", "seen_at": ISO, "leases": []}
    )
    owner: str = Field(description="Host, process id, start time.")
    state: Literal["driving", "idle", "gone"] = Field(
        description="Whether it holds a study, has none, or was not heard of for a lease; who is "
        "gone is listed for ten leases, and as long as a study is in its name."
    )
    seen_at: Iso | None = Field(
        description="When it was heard of last; null of one that drives named studies only."
    )
    leases: list[LeaseOut]


class RunningOut(Out):
    """Attempts under way."""

    model_config = example(
        {"study": "st-7f3a", "host": "node1", "target": "docker", "state": "running", "count": 2}
    )
    study: str
    host: str
    target: str
    state: AttemptState
    count: int


class TargetOut(Out):
    """A place where attempts run, or ran."""

    model_config = example({"name": "bubblewrap", "is_sandbox": True, "is_shared": False})
    name: str
    is_sandbox: bool
    is_shared: bool = Field(description="Whether several machines share it.")


class PoolOut(Out):
    """What this machine gives to trials."""

    model_config = example(
        {"host": "node1", "cpus": 8.0, "memory_bytes": 34359738368, "gpu_ids": ["0"]}
    )
    host: str
    cpus: float
    memory_bytes: int
    gpu_ids: list[str]


class DiskOut(Out):
    """A file system that ARL writes to."""

    model_config = example(
        {
            "total_bytes": 10**12,
            "free_bytes": 5 * 10**11,
            "min_free_bytes": 67108864,
            "is_low": False,
        }
    )
    total_bytes: int
    free_bytes: int
    min_free_bytes: int = Field(description="With less free, studies pause until there is more.")
    is_low: bool


class LedgerOut(Out):
    """Which ledger this is."""

    model_config = example({"id": "5a1c", "backend": "sqlite", "size_bytes": 1048576})
    id: str
    backend: str
    size_bytes: Number


class SystemOut(Out):
    """Workers, leases, targets, what the machine has."""

    model_config = example(
        {
            "version": "0.1.0",
            "now": ISO,
            "ledger": {"id": "5a1c", "backend": "sqlite", "size_bytes": 1048576},
            "pool": {"host": "node1", "cpus": 8.0, "memory_bytes": 34359738368, "gpu_ids": []},
            "held": [],
            "waiting": [],
            "disk": {"total_bytes": 100, "free_bytes": 50, "min_free_bytes": 1, "is_low": False},
            "ledger_disk": None,
            "workers": [],
            "running": [],
            "targets": [],
            "studies": {"running": 1},
            "streams": 2,
        }
    )
    version: str
    now: Iso = Field(description="The database's clock.")
    ledger: LedgerOut
    pool: PoolOut
    held: list[HeldOut] = Field(description="What trials hold, by host.")
    waiting: list[WantOut] = Field(description="Studies that wait for room on a host.")
    disk: DiskOut = Field(description="With the artifacts and attempts.")
    ledger_disk: DiskOut | None = Field(
        description="With the ledger; null where it is the same one, or a database server's."
    )
    workers: list[WorkerOut] = Field(description="By name.")
    running: list[RunningOut]
    targets: list[TargetOut]
    studies: dict[StudyState, int] = Field(description="How many are in each state.")
    streams: int = Field(description="Event streams open on this server.")
