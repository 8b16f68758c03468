"""What this process knows of attempts on a job service, to give up those that never end."""

import time
from collections.abc import Collection
from dataclasses import dataclass

from targets.http_job.documents import ObservationDoc
from targets.protocol import AttemptSpec


@dataclass(slots=True)
class _Watched:
    allowed_s: float
    output_bytes: int | None
    running_since: float | None = None
    is_lost: bool = False


class WatchedAttempts:
    """Their limits, and since when they run as far as is known here: the service enforces
    deadlines, and this notices one that does not. Adopted attempts count from when this process
    first saw them running."""

    def __init__(self, late_s: float) -> None:
        self._late_s = late_s
        self._known: dict[str, _Watched] = {}

    def launched(self, spec: AttemptSpec) -> None:
        limits = spec.limits
        self._known[spec.name] = _Watched(limits.timeout_s + limits.grace_s, limits.output_bytes)

    def saw(self, name: str, doc: ObservationDoc) -> None:
        known = self._known.setdefault(
            name, _Watched(doc.timeout_s + doc.grace_s, doc.output_bytes)
        )
        if doc.state != "running":
            known.running_since = None
        elif known.running_since is None:
            known.running_since = time.monotonic()
        if self._is_late(known):
            known.is_lost = True

    def is_lost(self, name: str) -> bool:
        """Whether it was given up: for good, whatever its service says later."""
        known = self._known.get(name)
        return known is not None and known.is_lost

    def due(self, names: Collection[str]) -> set[str]:
        """Those to look at again, since they should have ended long ago."""
        return {
            name
            for name in names
            if (known := self._known.get(name)) is not None
            and (known.is_lost or self._is_late(known))
        }

    def output_bytes(self, name: str) -> int | None:
        known = self._known.get(name)
        return None if known is None else known.output_bytes

    def forget(self, name: str) -> None:
        self._known.pop(name, None)

    def _is_late(self, known: _Watched) -> bool:
        since = known.running_since
        return since is not None and time.monotonic() - since > known.allowed_s + self._late_s
