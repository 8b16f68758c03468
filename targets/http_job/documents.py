"""The documents of the job protocol, version 1.

Requests are strict: unknown keys are refused. Answers are read leniently, so that a service may
say more than this version knows.
"""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ledger.records import AttemptKind
from targets.http_job import examples as http_examples
from targets.protocol import ExitCause

VERSION: Final = 1

Digest: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Name: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$")]
Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Text: TypeAlias = Annotated[str, Field(max_length=2000)]
Cursor: TypeAlias = Annotated[str, Field(max_length=200)]


class Asked(BaseModel):
    """What a client sends."""

    model_config = ConfigDict(extra="forbid")


class Told(BaseModel):
    """What a service answers."""

    model_config = ConfigDict(extra="ignore", strict=True)


# --- attempts --------------------------------------------------------------------------------


class ProgramDoc(Asked):
    """What to execute. See targets.protocol.Program."""

    argv: list[str]
    python: str
    image: str | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    working_input: str | None = None
    run_in: str | None = None


class LimitsDoc(Asked):
    """What the attempt may use; the service enforces all of it. Times in seconds."""

    timeout_s: Seconds
    stall_s: Seconds | None = None
    grace_s: Seconds = 10.0
    cpus: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    memory_bytes: Count | None = None
    gpus: Annotated[int, Field(ge=0, le=1024)] = 0
    log_bytes: Count = 16 * 1024 * 1024
    report_bytes: Count = 64 * 1024 * 1024
    output_bytes: Count | None = None
    scratch_bytes: Count | None = None


class AttemptDoc(Asked):
    """One attempt, fully pinned; its name is in the path. See targets.protocol.AttemptSpec."""

    model_config = ConfigDict(json_schema_extra={"example": http_examples.ATTEMPT})

    owner: Name
    kind: AttemptKind
    program: ProgramDoc
    inputs: dict[Name, Digest]
    document: dict[str, JsonValue]
    limits: LimitsDoc
    egress: list[str] = Field(default_factory=list)
    options: dict[str, JsonValue] = Field(default_factory=dict)
    answerer: ProgramDoc | None = None
    answerer_inputs: dict[Name, Digest] = Field(default_factory=dict)


class AttemptState(Told):
    name: Name
    state: Literal["queued", "running", "ended"]
    created: bool = False
    """Whether this request made it."""


class ExitDoc(Told):
    cause: ExitCause
    code: Annotated[int, Field(ge=-(2**31), le=2**31)] | None
    detail: Text = ""
    wall_s: Seconds = 0.0
    cpu_s: Seconds = 0.0
    max_rss_bytes: Count = 0


class NetworkRequestDoc(Told):
    at: Annotated[str, Field(max_length=64)]
    method: Annotated[str, Field(max_length=64)]
    host: Annotated[str, Field(max_length=255)]
    port: Annotated[int, Field(ge=0, le=65535)]
    allowed: bool
    detail: Text = ""
    sent_bytes: Count = 0
    received_bytes: Count = 0


class ValueDoc(Told):
    """One reported value."""

    step: Count
    metric: Annotated[str, Field(max_length=200)]
    value: float | Literal["NaN", "Infinity", "-Infinity"]


class ObservationDoc(Told):
    """What an attempt did since a cursor."""

    model_config = ConfigDict(json_schema_extra={"example": http_examples.OBSERVATION})

    state: Literal["queued", "running", "ended"]
    cursor: Cursor
    """For the next request."""
    more: bool = False
    """Ask again before believing that these were all values."""
    rejected: Count = 0
    values: Annotated[list[ValueDoc], Field(max_length=20_000)] = Field(default_factory=list)
    requests: Annotated[list[NetworkRequestDoc], Field(max_length=20_000)] = Field(
        default_factory=list
    )
    timeout_s: Seconds
    """Of its limits."""
    grace_s: Seconds
    output_bytes: Count | None = None
    exit: ExitDoc | None = None


class ChangeDoc(Told):
    name: Name
    running: bool


class NewsDoc(Told):
    """Which attempts have something new since a cursor."""

    model_config = ConfigDict(json_schema_extra={"example": http_examples.NEWS})

    cursor: Cursor
    reset: bool = False
    """The cursor was of another session: anything may have happened."""
    changed: Annotated[list[ChangeDoc], Field(max_length=20_000)] = Field(default_factory=list)


class FoundDoc(Told):
    name: Name
    running: bool


class AttemptsDoc(Told):
    attempts: Annotated[list[FoundDoc], Field(max_length=2000)]
    after: Name | None = None
    """Ask again with this for the rest; null: these were the last."""


# --- files -----------------------------------------------------------------------------------


class BlobsAsked(Asked):
    digests: Annotated[list[Digest], Field(max_length=20_000)]


class BlobsMissing(Told):
    missing: dict[Digest, Count]
    """Of those asked about, the ones that are not there whole, and how many bytes are."""


class BlobState(Told):
    received: Count
    complete: bool


class OutputEntry(Told):
    """A file or directory that an attempt left."""

    path: Annotated[str, Field(max_length=20_000)]
    """Relative to the output directory, `/` between parts; every byte that is not printable
    ASCII, and `%`, is written as %XX."""
    kind: Literal["file", "directory", "link", "other"]
    """link: a symbolic link, which is never followed; other: a pipe, socket or device."""
    size: Count = 0
    digest: Digest | None = None
    """sha256, where the service computed it."""


class OutputsDoc(Told):
    model_config = ConfigDict(json_schema_extra={"example": http_examples.OUTPUTS})

    entries: Annotated[list[OutputEntry], Field(max_length=2000)]
    after: Annotated[str, Field(max_length=20_000)] | None = None
    """Ask again with this for the rest; null: these were the last."""


# --- the service -----------------------------------------------------------------------------


class HealthDoc(Told):
    protocol: int
    """1."""
    time: Annotated[float, Field(allow_inf_nan=False)]
    """The service's clock, seconds since 1970."""
    target: Annotated[str, Field(max_length=200)]
    """What runs its attempts."""
    sandbox: bool
    """Whether that holds against a program written to break out."""
    images: bool
    egress: bool
    machines: bool
    """Whether it creates machines."""
    attempts: Count
    """Not released yet."""


class ProgramAsked(Asked):
    program: ProgramDoc
    machine: dict[str, JsonValue] | None = None
    """For what machine; null: for the service itself."""


class FingerprintDoc(Told):
    fingerprint: Text


class MachineAsked(Asked):
    """A machine to create; asked again, it is the same one."""

    model_config = ConfigDict(json_schema_extra={"example": http_examples.MACHINE})

    name: Name
    owner: Name
    study: Name
    machine: dict[str, JsonValue]
    """What to create, in the service's own words."""
    idle_s: Seconds = 900.0
    """The service deletes it after so long without attempts."""
    lease_s: Seconds = 86_400.0
    """It deletes it, attempts and all, after so long without a word from a client."""


class MachineDoc(Told):
    name: Name
    owner: Name
    study: Name
    state: Literal["creating", "ready", "deleting", "failed"]
    url: Annotated[str, Field(max_length=2000)] | None = None
    """Where it speaks this protocol, once ready."""
    detail: Text = ""
    idle_s: Seconds = 0.0
    """For how long it has had no attempt and no request."""


class MachinesDoc(Told):
    machines: Annotated[list[MachineDoc], Field(max_length=2000)]


class Problem(Told):
    """Why a request was not met (RFC 9457)."""

    model_config = ConfigDict(json_schema_extra={"example": http_examples.PROBLEM})

    title: Text = ""
    status: int
    code: Annotated[str, Field(max_length=100)]
    """session, clock, signature, not_found, other_body, late, still_running, inputs_missing,
    invalid_input, too_large, disk_full, busy, unsupported."""
    detail: Text = ""
    session: Annotated[str, Field(max_length=200)] | None = None
    time: Annotated[float, Field(allow_inf_nan=False)] | None = None
    missing: list[Digest] = Field(default_factory=list)
