"""Facts about attempts: what was started, what it reported, how it ended and what it left."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from ledger.entry_fields import UNSEALED
from ledger.records import ArtifactRole, AttemptKind, IntermediateValue, Json, Split
from ledger.states import AttemptState, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLaunching:
    """Intent: committed before anything starts, so that a crash finds or repeats the launch."""

    kind: ClassVar[str] = "attempt_launching"
    attempt_id: str
    trial_id: str | None
    attempt_kind: AttemptKind
    index: int
    split: Split | None
    target: str
    host: str
    timeout_s: float
    gpu_s: float = 0.0
    """Reserved from the GPU budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    kind: ClassVar[str] = "attempt_started"
    attempt_id: str
    trial_id: str | None
    handle: str
    trial_starts: bool
    """Whether this moves the trial from proposed to running (its first training attempt)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesReported:
    kind: ClassVar[str] = "values_reported"
    attempt_id: str
    trial_id: str
    sequence: int
    """Batches of one attempt count from 0; a batch is accepted once."""
    count: int
    digest: str
    values: tuple[IntermediateValue, ...] = field(repr=False, metadata=UNSEALED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequested:
    """What an attempt asked of the network, as its proxy saw it: allowed and refused."""

    kind: ClassVar[str] = "network_requested"
    attempt_id: str
    trial_id: str | None
    """None: it prepares the study."""
    sequence: int
    """Batches of one attempt count from 0."""
    count: int
    refused: int
    sent_bytes: int
    received_bytes: int
    digest: str
    """sha256 of the canonical JSON of the requests, also where those are not kept."""
    requests: tuple[Mapping[str, Json], ...]
    """Each with at, method, host, port, allowed, detail, sent and received. Empty: the attempt
    made so many that from here on they are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptExited:
    kind: ClassVar[str] = "attempt_exited"
    attempt_id: str
    exit_code: int | None
    """Negative: the signal that ended it. None where unknown."""
    cause: str
    """The target's word for it: exited, deadline, stalled, killed, out_of_memory, ..."""
    detail: str = ""
    wall_s: float
    cpu_s: float
    max_rss_bytes: int
    gpu_s: float = 0.0
    """Measured; settles the reservation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt ended without a usable outcome: rejected, cancelled or lost."""

    kind: ClassVar[str] = "attempt_ended"
    attempt_id: str
    current: AttemptState
    new: AttemptState
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRecorded:
    """What a trial saved is in the store. Recording the model ends the training attempt."""

    kind: ClassVar[str] = "artifact_recorded"
    attempt_id: str
    trial_id: str | None
    digest: str
    role: ArtifactRole
    files: int
    size_bytes: int
    collects: bool
    """Whether this moves the attempt to collected and its trial to evaluating."""


AttemptEntry: TypeAlias = (
    AttemptLaunching
    | AttemptStarted
    | ValuesReported
    | NetworkRequested
    | AttemptExited
    | AttemptEnded
    | ArtifactRecorded
)
