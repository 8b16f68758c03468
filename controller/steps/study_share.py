"""One study's part in what a worker knows of its host's pool."""

import math
from dataclasses import dataclass, field

from controller.decisions.sharing import EXPECTED_S
from controller.decisions.slots import Grant, Request
from controller.spec.study import StudySpec
from ledger.pool_writes import Taking
from ledger.pools import Hold


@dataclass(slots=True)
class StudyShare:
    """One study of this worker: its share, and what it holds here."""

    spec: StudySpec
    used: float = 0.0
    """Seconds of the whole machine that its ended trials held."""
    expected_s: float = EXPECTED_S
    waits_since: float | None = None
    """Monotonic, of its last turn; None: it wants nothing just now."""
    wanted_at: float = -math.inf
    """When it last waited or held something."""
    holds: dict[str, tuple[Grant, float]] = field(default_factory=dict)
    """By trial, with the monotonic time since when."""
    committed: dict[str, Hold] = field(default_factory=dict)
    taken: dict[str, Taking] = field(default_factory=dict)
    """To be written with the next commit."""
    given_back: set[str] = field(default_factory=set)
    was_denied: bool = False

    @property
    def request(self) -> Request:
        return request_of(self.spec)


def request_of(spec: StudySpec) -> Request:
    """What one trial of the study holds."""
    resources = spec.resources
    return Request(
        cpus=resources.cpus, memory_bytes=resources.memory_bytes or 0, gpus=resources.gpus
    )
