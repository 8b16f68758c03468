"""What an attempt on a cluster is written as: its spec on the way to a node, its journal, and the
record of its end."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ledger.records import AttemptKind, IntermediateValue
from targets.protocol import (
    AttemptSpec,
    Exit,
    ExitCause,
    Limits,
    NetworkRequest,
    Observation,
    Program,
)

VALUES_PER_CALL: Final = 4000
JOURNAL_PIECE: Final = 512 * 1024
"""Bytes of a journal that one observation reads at most."""

# Below the shared store's root:
#   trees/<digest>, blobs/<sha256>   inputs, kept for a while: other attempts need them too
#   attempts/<name>/                 launch, claim, record, journal, score, output
#   owners/<owner>/<name>            which attempts are whose, until they are released
#   logs/<name>/<offset>-<size>      what each printed, in pieces; stays
#   nodes/<id>                       nodes that cannot run what they were asked to


def attempt_path(name: str, part: str = "") -> str:
    return f"attempts/{name}/{part}" if part else f"attempts/{name}"


def owner_path(owner: str, name: str = "") -> str:
    return f"owners/{owner}/{name}" if name else f"owners/{owner}"


def log_path(name: str, piece: tuple[int, int] | None = None) -> str:
    return f"logs/{name}" if piece is None else f"logs/{name}/{piece[0]}-{piece[1]}"


LAUNCH: Final = "launch"
CLAIM: Final = "claim"
"""Whoever creates it decides: a node starts the program, or a controller ends the attempt before
it started. Nobody else may, ever."""
RECORD: Final = "record"
"""The end. Whoever creates it decides: a node that comes back finds that it was given up."""
JOURNAL: Final = "journal"
SCORE: Final = "score"
OUTPUT: Final = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How an attempt ended and what it left in the store."""

    exit: Exit
    node: str = ""
    output: str | None = None
    """Digest of its output's list of files; None: nothing was sent."""
    output_bytes: int = 0
    score_sha256: str | None = None
    journal_bytes: int = 0

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, data: bytes) -> "Record":
        """Raises ValueError."""
        try:
            found = json.loads(data)
            ended = found["exit"]
            found["exit"] = Exit(**{**ended, "cause": ExitCause(ended["cause"])})
            return cls(**found)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a record: {error}") from error


def spec_to_json(spec: AttemptSpec) -> dict[str, Any]:
    return asdict(spec)


def spec_from_json(found: Mapping[str, Any], *, gpu_ids: tuple[str, ...]) -> AttemptSpec:
    """The attempt as a node's own target runs it, with the GPUs that the cluster gave it."""
    limits = {**found["limits"], "gpu_ids": gpu_ids}
    answerer = found["answerer"]
    return AttemptSpec(
        **{
            **found,
            "kind": AttemptKind(found["kind"]),
            "program": program_from_json(found["program"]),
            "answerer": None if answerer is None else program_from_json(answerer),
            "limits": Limits(**limits),
            "egress": tuple(found["egress"]),
            "options": {},
            "launch_by": None,
        }
    )


def program_from_json(found: Mapping[str, Any]) -> Program:
    return Program(**{**found, "argv": tuple(found["argv"])})


def journal_lines(seen: Observation) -> bytes:
    """One line per value, per request, and one for what was rejected."""
    lines: list[Any] = [[v.step, v.metric, _storable(v.value)] for v in seen.values]
    lines += [asdict(request) for request in seen.requests]
    if seen.rejected:
        lines.append(seen.rejected)
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def read_journal(data: bytes, offset: int, *, size: int | None) -> Observation:
    """The observation in a piece of a journal that starts at `offset`; `size` is the whole
    journal's, None while it grows. Raises ValueError when it was damaged."""
    values: list[IntermediateValue] = []
    requests: list[NetworkRequest] = []
    rejected = used = 0
    for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
        if len(values) == VALUES_PER_CALL:
            break
        used += len(line)
        entry = json.loads(line)
        if isinstance(entry, list):
            step, metric, value = entry
            values.append(IntermediateValue(step=step, metric=metric, value=float(value)))
        elif isinstance(entry, dict):
            requests.append(NetworkRequest(**entry))
        else:
            rejected += entry
    reached = offset + used
    return Observation(
        values=tuple(values),
        cursor=str(reached),
        more=used > 0 and (used < len(data) or (size is not None and reached < size)),
        rejected=rejected,
        requests=tuple(requests),
    )


def _storable(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
