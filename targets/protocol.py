"""What every target is: the contract between the controller and the places where attempts run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ledger.records import AttemptKind, IntermediateValue, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one attempt may use. Enforced on the target's side, since the worker may be dead."""

    timeout_s: float
    """Wall time from the start of the program to its forced end."""
    stall_s: float | None = None
    """Ended when it neither reports nor logs for this long; None: never."""
    grace_s: float = 10.0
    """From a cooperative stop request, or SIGTERM at the deadline, to SIGKILL."""
    cpus: float = 1.0
    memory_bytes: int | None = None
    gpus: int = 0
    """How many GPUs; a target that is shared by several machines chooses them itself."""
    gpu_ids: tuple[str, ...] = ()
    """Which of this machine's, as the worker granted them; empty on a shared target."""
    log_bytes: int = 16 * 1024 * 1024
    """Head and tail of the log are kept, the middle is dropped beyond this."""
    report_bytes: int = 64 * 1024 * 1024
    output_bytes: int | None = None
    """Of its output directory: measured while it runs, and checked again by the collector."""
    scratch_bytes: int | None = None
    """Of its working directory, HOME, /tmp and reports together, measured while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to execute. `{python}` and `{name}` of an input are replaced by their path, in argv
    and in the values of environment; the target sets the ARL_ names and CUDA_VISIBLE_DEVICES."""

    argv: tuple[str, ...]
    python: str
    """The interpreter that `{python}` stands for, as it is called where the program runs."""
    image: str | None = None
    """For targets that run images: the one to use, by digest once it went through Target.pin.
    None: this machine's own system and interpreter, read-only."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to a clean environment; the same placeholders are replaced in the values."""
    working_input: str | None = None
    """Name of the input whose tree is copied into the writable working directory."""
    run_in: str | None = None
    """Name of the input to use, read-only, as the working directory; excludes working_input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSpec:
    """One attempt, fully pinned."""

    name: str
    """`arl-<attempt id>`: deterministic, so that a launch can be repeated after a crash."""
    owner: str
    """The ledger's id: who may adopt or reap this attempt."""
    kind: AttemptKind
    program: Program
    inputs: Mapping[str, str]
    """Mount name to tree digest; read-only for the program."""
    document: Mapping[str, Json]
    """Written as the program's params.json (see inner_trials.contract); the target adds the
    paths it knows under `inputs`, `output` and `workspace`."""
    limits: Limits
    egress: tuple[str, ...] = ()
    """The only hosts it may reach, `name`, `name:port` or `*.name`, through a proxy that records
    every request; none by default. Only a sandbox keeps a program from reaching others."""
    options: Mapping[str, Json] = field(default_factory=dict)
    """What the study's `target` section says for this target alone, by its keys there."""
    launch_by: float | None = None
    """Monotonic time of this machine after which it is not started any more, though it may be
    found: the lease of the worker that asks is over then, and another may have run it already.
    A local target raises ledger.errors.StaleFence."""
    answerer: Program | None = None
    """Evaluate attempts in `answers` mode: the candidate's program, run without labels, bundle
    or network, its stdin and stdout connected to the evaluator's answer channel."""
    answerer_inputs: Mapping[str, str] = field(default_factory=dict)


class ExitCause(StrEnum):
    """Why an attempt's program is no longer running."""

    EXITED = "exited"
    """By itself; the exit code tells the rest."""
    DEADLINE = "deadline"
    STALLED = "stalled"
    STOPPED = "stopped"
    """It ended after a cooperative stop request, within the grace period."""
    KILLED = "killed"
    """The controller asked for it."""
    OUT_OF_MEMORY = "out_of_memory"
    TOO_MANY_PROCESSES = "too_many_processes"
    TOO_MUCH_DATA = "too_much_data"
    """It passed Limits.output_bytes or scratch_bytes."""
    IMAGE_MISSING = "image_missing"
    """Its image is not here and could not be pulled."""
    LAUNCH_FAILED = "launch_failed"
    """It never ran: no such program, no permission, no space."""
    LOST = "lost"
    """The target lost it (its supervisor or engine died); infrastructure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    cause: ExitCause
    code: int | None
    """Exit status; negative for a signal; None if it never ran or is unknown."""
    detail: str = ""
    """One line for a person, control characters stripped."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    max_rss_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequest:
    """One request of an attempt that may reach a network, as its proxy saw it."""

    at: str
    """UTC, ISO 8601 with offset."""
    method: str
    """CONNECT, GET …"""
    host: str
    port: int
    allowed: bool
    detail: str = ""
    """Why it was refused, or how it ended; one line, control characters stripped."""
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    values: tuple[IntermediateValue, ...]
    """Reported since the cursor, in order; at most a few thousand per call."""
    cursor: str
    """Pass it to the next observe; opaque, starts as the empty string."""
    more: bool = False
    """More values are waiting: observe again before treating the attempt as drained."""
    rejected: int = 0
    """Lines since the cursor that were not a report and were skipped."""
    requests: tuple[NetworkRequest, ...] = ()
    """Network requests since the cursor, in order."""
    exit: Exit | None = None
    """Set once nothing of the attempt runs any more."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    data: bytes
    offset: int
    """Of the first byte of data."""
    size: int
    """Of the whole log now."""


@dataclass(frozen=True, slots=True)
class Found:
    handle: str
    name: str
    running: bool


class OutputReader(Protocol):
    """The files an attempt left, for the collector, as a directory on this machine."""

    @property
    def root(self) -> str:
        """Absolute path of the attempt's output directory; hostile content until collected."""
        ...


class Target(Protocol):
    """Somewhere attempts run. Methods may be called from several threads.

    Every method raises ledger.errors.TargetUnavailable when the place itself cannot be reached,
    and may raise ledger.errors.DiskFull.
    """

    name: str
    is_shared: bool
    """Whether workers on any host reach its attempts, which use another machine's resources;
    else they belong to the host that launched them."""
    is_sandbox: bool
    """Whether it holds against a program written to break out: model-written patches may run."""

    def launch(self, spec: AttemptSpec) -> str:
        """Start the attempt and return its handle. Idempotent on `spec.name`: if it was started
        before, running or ended, return the handle of that one and start nothing."""
        ...

    def wait(self, handles: Collection[str], timeout_s: float) -> set[str]:
        """Block until one of `handles` may have news (values or an exit), `interrupt` is called,
        or the time is over. Returns those with news; empty on interrupt and time-out."""
        ...

    def interrupt(self) -> None:
        """Make the current (or next) wait return at once. Callable from any thread."""
        ...

    def observe(self, handle: str, *, cursor: str) -> Observation:
        """Values since `cursor` and, once ended, the exit. An unknown handle is a LOST exit."""
        ...

    def request_stop(self, handle: str) -> None:
        """Ask the program to save and leave; it sees this at its next report. After
        Limits.grace_s the target kills it. Idempotent; nothing happens to an ended one."""
        ...

    def kill(self, handle: str) -> None:
        """End it and everything it started. When this returns, or soon after (observe says),
        nothing of it runs; its outputs survive. Idempotent."""
        ...

    def outputs(self, handle: str) -> OutputReader:
        """The output directory. Raises Conflict while anything of the attempt still runs, and
        may raise NotFound, here or when its root is asked for, once it went with its machine."""
        ...

    def score(self, handle: str) -> bytes:
        """What an ended prepare or evaluate attempt wrote on its score channel, at most
        inner_trials.contract.SCORE_BYTES + 1 bytes (one more than allowed tells it was cut)."""
        ...

    def read_log(self, handle: str, *, offset: int, limit: int) -> LogChunk:
        """Bytes of its combined output, while it runs, after it ended and after release.

        An offset means the same byte for ever. Where the middle was dropped, a chunk starts
        later than asked, with one line in place of what is missing."""
        ...

    def release(self, handle: str) -> None:
        """Delete what is left of an ended attempt, except its log. Idempotent."""
        ...

    def list_owned(self, owner: str) -> Sequence[Found]:
        """Every attempt of `owner` not released yet: to adopt and to reap orphans."""
        ...

    def check_options(self, options: Mapping[str, Json]) -> None:
        """Raise InvalidInput, with what to write, for AttemptSpec.options that no attempt could
        ever be launched with here."""
        ...

    def pin(self, program: Program) -> Program:
        """The same program with its image named by digest, asked of a registry when it is not
        here. Raises InvalidInput: there is no such image, or this target runs no images."""
        ...

    def fingerprint(self, program: Program) -> str:
        """What of the environment may change a result (interpreter, platform, image digest):
        one short text, part of the comparison family. Give it a pinned program."""
        ...

    def close(self) -> None:
        """Let go of connections. Attempts go on running."""
        ...
