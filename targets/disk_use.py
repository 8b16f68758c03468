"""Ends what writes too much: an attempt's directories, measured a little at a time.

Standard library only. Nothing is walked while the file system's free space shows that nothing can
have happened, but for a slow round now and then; a round that free space asks for is fast.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from targets import layout
from targets.disk_walk import MAX_DEPTH, Free, TooDeep, free_of, walk_deleted, walk_entries

FILE_SLACK_BYTES: Final = 64 * 1024
"""One file may become this much longer than all may, so that it is seen to be too much."""
RESERVE_BYTES: Final = 256 * 1024 * 1024
"""Free space that no attempt may use up, whatever its limits are: the ledger needs some, and
other attempts. Whoever took at least half of what went is ended."""

_FASTEST_BYTES_PER_S: Final = 4 * 1024**3
"""No disk is filled faster: decides when free space is looked at next."""
_SOONEST_S: Final = 0.05
_LATEST_S: Final = 1.0
_ROUND_S: Final = 2.0
"""From the end of one round to the next, at least."""
_CALM_SHARE: Final = 0.01
_URGENT_SHARE: Final = 0.5
"""Of a processor, for walking: usually, and when free space says that a limit may be passed."""
_CALM_SLICE_S: Final = 0.005
_URGENT_SLICE_S: Final = 0.02
_REST: Final = 10.0
"""After an urgent round, as a multiple of its length, before another one."""
_NEAR: Final = 0.9
"""Of what is left of a limit: free space is not told to the byte."""
_LAST_ROUND_S: Final = 1.0
_NEVER: Final = float("inf")

_SCRATCH: Final = (layout.WORK, layout.HOME, "tmp")


class Quota(NamedTuple):
    """Directories, and what they may hold together."""

    what: str
    setting: str
    """Which the user writes."""
    limit_bytes: int
    places: Sequence[str]
    """Directories, and single files."""
    by_length: bool
    """Whether a file counts its length too, where that is more than it occupies."""


def quotas_of(directory: str, output_bytes: int | None, scratch_bytes: int | None) -> list[Quota]:
    """Those of the attempt in a directory."""
    quotas = []
    if output_bytes is not None:
        places = [f"{directory}/{layout.OUTPUT}"]
        quotas.append(
            Quota("its output", "resources.output", output_bytes, places, by_length=True)
        )
    if scratch_bytes is not None:
        sides = (directory, f"{directory}/{layout.ANSWERER}")
        places = [f"{side}/{part}" for side in sides for part in _SCRATCH]
        places.append(f"{directory}/{layout.REPORTS}")
        what = "its working directory, HOME and /tmp"
        quotas.append(Quota(what, "resources.scratch", scratch_bytes, places, by_length=False))
    return quotas


def longest_file(output_bytes: int | None, scratch_bytes: int | None) -> int | None:
    """What any single file may be long without being too much wherever it is; None: anything."""
    if output_bytes is None or scratch_bytes is None:
        return None
    return max(output_bytes, scratch_bytes) + FILE_SLACK_BYTES


class DiskWatch:
    """The quotas of one attempt. Times are of the monotonic clock."""

    def __init__(self, directory: str, quotas: Sequence[Quota], now: float) -> None:
        self._directory = directory
        self._quotas = quotas
        self._headroom = min((quota.limit_bytes for quota in quotas), default=0)
        self._first = self._then = free_of(directory) if quotas else Free(0, 0)
        self._began = self._then
        self._round: Round | None = None
        self._round_at = now + _ROUND_S
        self._urgent_from = self._slice_at = now
        self._due_at = now + self._patience_s() if quotas else _NEVER

    def due_at(self) -> float:
        return self._due_at

    def find_excess(self, now: float) -> str:
        """What is too much, in a few words; empty when nothing is known to be. Looks when it is
        time, for at most a few hundredths of a second."""
        if now < self._due_at:
            return ""
        urgent = self._may_be_passed() and now >= self._urgent_from
        if self._round is None and (urgent or now >= self._round_at):
            self._round = self._begin()
        excess = ""
        if self._round is not None and (urgent or now >= self._slice_at):
            excess = self._advance(self._round, now, urgent=urgent)
        self._due_at = now + self._patience_s()
        if self._round is not None:
            self._due_at = min(self._due_at, max(self._slice_at, now + 0.001))
        return excess

    def find_last_excess(self) -> str:
        """The same once nothing of the attempt runs any more, for one that was too fast."""
        if not self._quotas or not self._may_be_passed():
            return ""
        last = self._begin()
        last.advance(_LAST_ROUND_S)
        return last.excess

    def _patience_s(self) -> float:
        room = max(self._began.size_bytes - RESERVE_BYTES, 0)
        fastest_s = min(self._headroom, room) / _FASTEST_BYTES_PER_S
        return min(max(fastest_s, _SOONEST_S), _LATEST_S)

    def _may_be_passed(self) -> bool:
        self._began = free_of(self._directory)
        return self._then.lost_since(self._began) >= _NEAR * self._headroom or self._is_filled()

    def _is_filled(self) -> bool:
        """Whether the disk is nearly full now, and was not when the attempt began."""
        gone = self._first.size_bytes - self._began.size_bytes
        return self._began.size_bytes < RESERVE_BYTES <= gone

    def _begin(self) -> "Round":
        gone = self._first.lost_since(self._began)
        return Round(self._directory, self._quotas, gone, is_filled=self._is_filled())

    def _advance(self, walk: "Round", now: float, *, urgent: bool) -> str:
        slice_s = _URGENT_SLICE_S if urgent else _CALM_SLICE_S
        share = _URGENT_SHARE if urgent else _CALM_SHARE
        before_s = walk.took_s
        done = walk.advance(slice_s)
        took_s = walk.took_s - before_s
        ended = now + took_s
        self._slice_at = now + took_s / share
        if done:
            self._then = self._began
            self._headroom = walk.headroom
            self._urgent_from = ended + _REST * walk.took_s
            self._round_at = ended + max(_ROUND_S, walk.took_s / _CALM_SHARE)
            self._round = None
        return walk.excess


class Round:
    """One measurement of all quotas, in slices."""

    def __init__(
        self, directory: str, quotas: Sequence[Quota], gone_bytes: int, *, is_filled: bool = False
    ) -> None:
        """`gone_bytes` is what the file system has less than when the attempt began; `is_filled`
        whether that leaves too little."""
        self._directory = directory
        self._gone_bytes = gone_bytes
        self._is_filled = is_filled
        self._steps = self._measure(quotas)
        self.headroom = min((quota.limit_bytes for quota in quotas), default=0)
        """Once done: how much may be written before a limit can be passed."""
        self.excess = ""
        self.took_s = 0.0

    def advance(self, slice_s: float) -> bool:
        """Go on for that long; whether it is done. It is when a limit is passed."""
        started = time.monotonic()
        until = started + slice_s
        for _ in self._steps:
            if self.excess or time.monotonic() >= until:
                break
        else:
            self._steps = iter(())
            self.took_s += time.monotonic() - started
            return True
        self.took_s += time.monotonic() - started
        return bool(self.excess)

    def _measure(self, quotas: Sequence[Quota]) -> Iterator[None]:
        known_bytes = left = 0
        for quota in quotas:
            used = 0
            try:
                for each in _all_entries(quota):
                    used += each
                    if used > quota.limit_bytes:
                        self.excess = _too_much(quota, used)
                    yield
            except TooDeep:
                self.excess = f"{quota.what} held directories nested more than {MAX_DEPTH} deep"
                yield
            left = max(quota.limit_bytes - used, 0)
            self.headroom = min(self.headroom, left)
            known_bytes += used
        if quotas and not self.excess:
            yield from self._measure_hidden(quotas[-1], left, known_bytes)

    def _measure_hidden(self, quota: Quota, left: int, known_bytes: int) -> Iterator[None]:
        """Files without a name occupy what they do as long as somebody has them open: they are
        scratch, wherever they were."""
        gone, hidden, found = self._gone_bytes, self._gone_bytes - known_bytes, 0
        if hidden >= _NEAR * left or (self._is_filled and hidden >= gone / 2):
            for each in walk_deleted(self._directory):
                found += each
                yield
            found = min(found, hidden)
        if found > left:
            self.excess = (
                f"it held {_size(found)} in deleted files that it has open, more than what is "
                f"left of the {_size(quota.limit_bytes)} that {quota.setting} allows"
            )
        elif self._is_filled and known_bytes + found >= gone / 2:
            self.excess = (
                f"it held {_size(known_bytes + found)} and left less than "
                f"{_size(RESERVE_BYTES)} of the disk free"
            )


def _too_much(quota: Quota, used: int) -> str:
    return (
        f"{quota.what} held {_size(used)} or more, and {quota.setting} allows "
        f"{_size(quota.limit_bytes)}"
    )


def _all_entries(quota: Quota) -> Iterator[int]:
    for place in quota.places:
        yield from walk_entries(place, by_length=quota.by_length)


def _size(count: int) -> str:
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count} bytes"
