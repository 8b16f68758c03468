"""Attempts on the wire, with what they left: scores, artifacts, logs."""

from pydantic import Field

from controller.api.models.wire import DIGEST, ISO, Flagged, Iso, Number, Out, example
from ledger.records import ArtifactRole, AttemptKind, Split
from ledger.retention_entries import ReleaseReason
from ledger.states import AttemptState, Reason


class AttemptOut(Flagged):
    """One process started for a trial."""

    model_config = example(
        {
            "id": "st-7f3a-t12-train0",
            "kind": "train",
            "index": 0,
            "split": None,
            "state": "collected",
            "reason": None,
            "detail": "",
            "target": "bubblewrap",
            "host": "node1",
            "exit_code": 0,
            "timeout_s": 1800.0,
            "wall_s": 55.0,
            "cpu_s": 50.0,
            "max_rss_bytes": 104857600,
            "started_at": ISO,
            "ended_at": ISO,
        }
    )
    id: str
    kind: AttemptKind
    index: int
    split: Split | None
    state: AttemptState
    reason: Reason | None
    detail: str
    target: str
    host: str
    exit_code: int | None = Field(description="Negative: the signal that ended it.")
    timeout_s: Number
    wall_s: Number
    cpu_s: Number
    max_rss_bytes: int | None
    started_at: Iso | None
    ended_at: Iso | None


class EvaluationOut(Out):
    """Scores of one split, as a fresh process read them from the stored artifact."""

    model_config = example(
        {
            "split": "search",
            "value": 0.71,
            "scores": {"exact_match": 0.71},
            "items": 200,
            "bundle": DIGEST,
            "artifact": DIGEST,
            "attempt": "st-7f3a-t12-search",
        }
    )
    split: Split
    value: Number
    scores: dict[str, Number]
    items: int = Field(description="How many items were scored singly; 0 where it says none.")
    bundle: str
    artifact: str
    attempt: str


class LetGoOut(Out):
    """That retention let an artifact go, when and why."""

    model_config = example({"at": ISO, "reason": "not_among_best", "policy": "best-5"})
    at: Iso
    reason: ReleaseReason
    policy: str


class ArtifactOut(Out):
    """What an attempt left in the store."""

    model_config = example(
        {
            "role": "model",
            "digest": DIGEST,
            "attempt": "st-7f3a-t12-train0",
            "files": 3,
            "size_bytes": 10485760,
            "let_go": None,
        }
    )
    role: ArtifactRole
    digest: str
    attempt: str
    files: int
    size_bytes: int
    let_go: LetGoOut | None = Field(description="Null while it is kept.")


class ArtifactsOut(Out):
    """What a trial's attempts left in the store."""

    model_config = example({"trial": "st-7f3a-t12", "items": []})
    trial: str
    items: list["ArtifactListing"]


class ArtifactListing(ArtifactOut):
    """An artifact with its files, as far as they are listed."""

    model_config = example(
        {
            "role": "model",
            "digest": DIGEST,
            "attempt": "st-7f3a-t12-train0",
            "files": 1,
            "size_bytes": 12,
            "let_go": None,
            "listed": [{"path": "weights.bin", "size_bytes": 12, "digest": DIGEST}],
            "is_listed_whole": True,
            "is_stored": True,
        }
    )
    listed: list["FileOut"]
    is_listed_whole: bool
    is_stored: bool = Field(description="False: it was let go, or is damaged.")


class FileOut(Out):
    """A file of a tree."""

    model_config = example({"path": "weights.bin", "size_bytes": 12, "digest": DIGEST})
    path: str
    size_bytes: int
    digest: str


class LogsOut(Out):
    """Which logs a trial has."""

    model_config = example(
        {
            "trial": "st-7f3a-t12",
            "items": [
                {
                    "attempt": "st-7f3a-t12-train0",
                    "kind": "train",
                    "split": None,
                    "state": "collected",
                    "size_bytes": 4096,
                    "is_here": True,
                }
            ],
        }
    )
    trial: str
    items: list["LogListed"]


class LogListed(Out):
    """The log of one attempt."""

    model_config = example(
        {
            "attempt": "st-7f3a-t12-train0",
            "kind": "train",
            "split": None,
            "state": "collected",
            "size_bytes": 4096,
            "is_here": True,
        }
    )
    attempt: str
    kind: AttemptKind
    split: Split | None
    state: AttemptState
    size_bytes: int
    is_here: bool = Field(description="False: no longer kept, or on a machine this one is not.")


class LogOut(Out):
    """A range of a log as safe text: control characters are written out."""

    model_config = example(
        {
            "attempt": "st-7f3a-t12-train0",
            "offset": 0,
            "next_offset": 12,
            "size_bytes": 4096,
            "text": "step 1 done\\n",
            "is_over": False,
        }
    )
    attempt: str
    offset: int = Field(description="Byte at which `text` begins.")
    next_offset: int = Field(description="Where to go on reading.")
    size_bytes: int = Field(description="How long the log is now.")
    text: str
    is_over: bool = Field(description="Nothing will be added: the attempt ended, all is read.")


class TreeOut(Out):
    """A tree that a trial left."""

    model_config = example(
        {
            "digest": DIGEST,
            "listed": [{"path": "weights.bin", "size_bytes": 12, "digest": DIGEST}],
            "is_listed_whole": True,
            "is_stored": True,
        }
    )
    digest: str
    listed: list[FileOut]
    is_listed_whole: bool
    is_stored: bool
