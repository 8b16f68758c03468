"""Finished trials packed away in blocks: a long history in a fifth of the room, read when asked.

A sequence like any other, in the order of finishing. Trials near one that was read lately are at
hand; others cost some milliseconds of unpacking. What goes over all of it again and again wants a
plain list instead.
"""

import json
import marshal
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, overload

from ledger.digests import canonical_json
from ledger.records import Params
from ledger.search import FinishedTrial
from ledger.states import Reason, TrialState

BLOCK: Final = 1000
UNPACKED: Final = 12
"""Blocks that lie unpacked beside their packed form, those read longest ago left out."""
_STATES: Final = tuple(TrialState)
_REASONS: Final = tuple(Reason)
_STATE_CODES: Final[Mapping[str, int]] = {state: code for code, state in enumerate(_STATES)}
_REASON_CODES: Final[Mapping[str, int]] = {reason: code for code, reason in enumerate(_REASONS)}
_FORMAT: Final = 2
"""Of marshal: without a table of what was written before, which costs more than it saves."""

_QUICK: Final = 1
"""Of zlib: numbers in decimal digits come to half their size at any level."""

Column: TypeAlias = Sequence[Any]


class Outcome(NamedTuple):
    """How a trial ended, without what was tried."""

    number: int
    state: TrialState
    reason: Reason
    value: float | None
    kept: bool
    candidate_id: str


class Columns(NamedTuple):
    """Some trials, field by field as they are stored; JSON stays text."""

    number: Column
    state: Column
    reason: Column
    value: Column
    kept: Column
    candidate_id: Column
    params: Column
    scores: Column
    detail: Column
    proposer: Column
    parent_id: Column
    rationale: Column
    source_digest: Column
    wall_s: Column


_SHARED: Final = ("detail", "proposer", "parent_id", "rationale", "source_digest", "wall_s")
"""Fields in which all trials of a block often say the same."""


class FinishedTrials(Sequence[FinishedTrial]):
    """Grows at its end only. For one thread."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._latest: list[FinishedTrial] = []
        """Fewer than a block, not packed yet."""
        self._unpacked: dict[int, list[FinishedTrial]] = {}

    def append(self, trial: FinishedTrial) -> None:
        self._latest.append(trial)
        if len(self._latest) == BLOCK:
            self._blocks.append(_packed(_columns_of(self._latest)))
            self._keep(len(self._blocks) - 1, self._latest)
            self._latest = []

    def extend_with(self, columns: Columns) -> None:
        """Take in what was read. Whole blocks are packed without being looked at."""
        if self._latest or len(columns.number) != BLOCK:
            for trial in _trials(columns):
                self.append(trial)
        else:
            self._blocks.append(_packed(columns))

    def outcomes(self, start: int = 0) -> Iterator[Outcome]:
        """From one place on."""
        first, skipped = divmod(start, BLOCK)
        for block in self._blocks[first:]:
            columns = _columns(block)
            states = map(_STATES.__getitem__, columns.state)
            reasons = map(_REASONS.__getitem__, columns.reason)
            told = zip(columns.number, states, reasons, *columns[3:6], strict=True)
            yield from islice(map(Outcome._make, told), skipped, None)
            skipped = 0
        yield from map(_outcome, self._latest[skipped:])

    def candidate_ids(self) -> Iterator[str]:
        for block in self._blocks:
            yield from _columns(block).candidate_id
        yield from (trial.candidate_id for trial in self._latest)

    def __len__(self) -> int:
        return len(self._blocks) * BLOCK + len(self._latest)

    def __iter__(self) -> Iterator[FinishedTrial]:
        for number in range(len(self._blocks)):
            yield from self._unpacked.get(number) or _trials(_columns(self._blocks[number]))
        yield from self._latest

    def __reversed__(self) -> Iterator[FinishedTrial]:
        yield from reversed(self._latest)
        for number in reversed(range(len(self._blocks))):
            yield from reversed(self._block(number))

    @overload
    def __getitem__(self, place: int) -> FinishedTrial: ...

    @overload
    def __getitem__(self, place: slice) -> list[FinishedTrial]: ...

    def __getitem__(self, place: int | slice) -> FinishedTrial | list[FinishedTrial]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"trial {place} of {len(self)}")
        block, position = divmod(place % len(self), BLOCK)
        found = self._latest if block == len(self._blocks) else self._block(block)
        return found[position]

    def _block(self, number: int) -> list[FinishedTrial]:
        found = self._unpacked.pop(number, None)
        if found is None:
            found = list(_trials(_columns(self._blocks[number])))
        self._keep(number, found)
        return found

    def _keep(self, number: int, trials: list[FinishedTrial]) -> None:
        self._unpacked[number] = trials
        if len(self._unpacked) > UNPACKED:
            del self._unpacked[next(iter(self._unpacked))]


Finished: TypeAlias = list[FinishedTrial] | FinishedTrials


def outcomes_of(finished: Sequence[FinishedTrial], start: int = 0) -> Iterator[Outcome]:
    """How they ended, from one place on, in whatever form they are kept."""
    if isinstance(finished, FinishedTrials):
        return finished.outcomes(start)
    return map(_outcome, islice(finished, start, None))


def _outcome(trial: FinishedTrial) -> Outcome:
    return Outcome(
        trial.number, trial.state, trial.reason, trial.value, trial.kept, trial.candidate_id
    )


def _packed(columns: Columns) -> bytes:
    """For this process: marshal's form is that of one version of Python."""
    whole = columns._asdict()
    whole["state"] = bytes(map(_STATE_CODES.__getitem__, columns.state))
    whole["reason"] = bytes(map(_REASON_CODES.__getitem__, columns.reason))
    for name in ("params", "scores"):
        whole[name] = f"[{','.join(whole[name])}]"
    for name in _SHARED:
        if len(set(whole[name])) == 1:
            whole[name] = whole[name][:1]
    return zlib.compress(marshal.dumps(tuple(whole.values()), _FORMAT), _QUICK)


def _columns(block: bytes) -> Columns:
    """As they were packed: codes for words, JSON not parsed, one of what all say."""
    return Columns._make(marshal.loads(zlib.decompress(block)))


def _trials(columns: Columns) -> Iterator[FinishedTrial]:
    """Of columns as they were read, or as they were packed."""
    whole = columns._asdict()
    count, words = len(columns.number), dict[str, str]()
    if isinstance(columns.state, bytes):
        whole["state"] = map(_STATES.__getitem__, columns.state)
        whole["reason"] = map(_REASONS.__getitem__, columns.reason)
    else:
        whole["state"] = map(TrialState, columns.state)
        whole["reason"] = map(Reason, columns.reason)
    for name in ("params", "scores"):
        text = whole[name]
        whole[name] = json.loads(text if isinstance(text, str) else f"[{','.join(text)}]")
    for name in _SHARED:
        said = whole[name] if len(whole[name]) == count else whole[name] * count
        whole[name] = [words.setdefault(word, word) for word in said]
    return map(_trial, *whole.values())


def _trial(  # noqa: PLR0913, PLR0917 (a field each)
    number: int,
    state: TrialState,
    reason: Reason,
    value: float | None,
    kept: bool,  # noqa: FBT001
    candidate_id: str,
    params: Params,
    scores: Mapping[str, float],
    detail: str,
    proposer: str,
    parent_id: str | None,
    rationale: str,
    source_digest: str | None,
    wall_s: float,
) -> FinishedTrial:
    return FinishedTrial(
        number=number,
        params=params,
        state=state,
        value=value,
        reason=reason,
        candidate_id=candidate_id,
        kept=kept,
        scores=scores,
        detail=detail,
        proposer=proposer,
        parent_id=parent_id,
        rationale=rationale,
        source_digest=source_digest,
        wall_s=wall_s,
    )


def _columns_of(trials: Sequence[FinishedTrial]) -> Columns:
    whole = {name: tuple(getattr(trial, name) for trial in trials) for name in Columns._fields}
    whole["params"] = tuple(canonical_json(dict(trial.params)) for trial in trials)
    whole["scores"] = tuple(json.dumps(dict(trial.scores)) for trial in trials)
    return Columns(**whole)
