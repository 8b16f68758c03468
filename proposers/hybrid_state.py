"""What a hybrid keeps between calls: its own book, and each arm's state as it is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

VERSION: Final = 1
MOST_FAILURES: Final = 5
"""Calls in a row that fail before an arm is not asked any more."""


@dataclass(slots=True, kw_only=True)
class ArmState:
    state: bytes | None = None
    """What the arm's last call gave."""
    given: int = 0
    """Proposals so far."""
    usd: float = 0.0
    """What its language models charged for those."""
    is_done: bool = False
    """Whether it has nothing left to propose."""
    failures: int = 0
    """Calls in a row that failed."""
    rests_until: int = 0
    """Number of the first search proposal for which it is asked again, after a failure."""
    why: str = ""
    """Of the last failure."""

    @property
    def is_able(self) -> bool:
        """Whether it may have something to give."""
        return not self.is_done and self.failures < MOST_FAILURES


@dataclass(slots=True, kw_only=True)
class HybridState:
    arms: list[ArmState]
    turn: int = 0
    """stall: whose turn it is."""
    since: int = 0
    """stall: trials that had finished when the turn began."""
    labels: tuple[str, ...] = field(default=())


def read_state(written: bytes | None, labels: Sequence[str]) -> HybridState:
    """A fresh one where there is none, or it is another version's or of other arms. Raises
    ValueError for what is no state at all."""
    fresh = HybridState(arms=[ArmState() for _ in labels], labels=tuple(labels))
    if written is None:
        return fresh
    head, _, rest = written.partition(b"\n")
    document = json.loads(head)
    if document["version"] != VERSION or document["labels"] != list(labels):
        return fresh
    fresh.turn, fresh.since = int(document["turn"]), int(document["since"])
    for arm, kept in zip(fresh.arms, document["arms"], strict=True):
        size = cast("int | None", kept.pop("size"))
        if size is not None:
            arm.state, rest = rest[:size], rest[size:]
        for name, value in kept.items():
            setattr(arm, name, value)
    return fresh


def write_state(state: HybridState) -> bytes:
    """One line of JSON, then the arms' states one after the other."""
    document = {
        "version": VERSION,
        "labels": state.labels,
        "turn": state.turn,
        "since": state.since,
        "arms": [
            {
                "size": None if arm.state is None else len(arm.state),
                "given": arm.given,
                "usd": arm.usd,
                "is_done": arm.is_done,
                "failures": arm.failures,
                "rests_until": arm.rests_until,
                "why": arm.why,
            }
            for arm in state.arms
        ],
    }
    head = json.dumps(document, sort_keys=True).encode()
    return b"\n".join((head, b"".join(arm.state or b"" for arm in state.arms)))
