"""Says in the log what a worker committed, with the ids of what it is about."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from ledger import entries as e

log = logging.getLogger("arl.study")

ABOUT: Final = {
    "trial": "trial_id",
    "attempt": "attempt_id",
    "candidate": "candidate_id",
    "family": "family_id",
}
"""What a record of the log names, and the field of an entry that it comes from."""
SAID: Final = (
    "current", "new", "verdict", "reason", "value", "cause", "exit_code", "detail", "owner",
    "fence", "verb", "actor", "refused", "resource", "limit", "setting", "model", "target",
)  # fmt: skip
"""Further fields of an entry that are told; what is long or secret is not among them."""
LONGEST: Final = 500
MILESTONES: Final = (
    e.StudyMoved,
    e.CommandApplied,
    e.BudgetChanged,
    e.ProposerWaits,
    e.TrialDecided,
    e.TrialServed,
    e.TrialEnded,
    e.AttemptEnded,
    e.FamilyOpened,
    e.FamilyMoved,
    e.CandidatePromoted,
)
"""Told at level INFO; the other entries at DEBUG."""

_study: ContextVar[str | None] = ContextVar("arl_study", default=None)


@contextmanager
def about_study(study_id: str) -> Iterator[None]:
    """Whatever is logged within is about this study, unless its record says otherwise."""
    token = _study.set(study_id)
    try:
        yield
    finally:
        _study.reset(token)


def study_of(record: logging.LogRecord) -> str | None:
    """The study that a record is about; None where it is about none."""
    found: str | None = getattr(record, "study", None)
    return found or _study.get()


def tell(study_id: str, committed: Sequence[e.Entry]) -> None:
    """One record for each entry of a study that was just committed."""
    if not log.isEnabledFor(logging.INFO):
        return
    for entry in committed:
        level = logging.INFO if isinstance(entry, MILESTONES) else logging.DEBUG
        if not log.isEnabledFor(level):
            continue
        named = {name: getattr(entry, source, None) for name, source in ABOUT.items()}
        about = {"study": study_id} | {k: str(v) for k, v in named.items() if v is not None}
        said = {name: _short(getattr(entry, name)) for name in SAID if _is_said(entry, name)}
        words = [f"{name} {value}" for name, value in about.items()]
        words += [f"{name}={value}" for name, value in said.items()]
        log.log(
            level,
            "%s %s",
            entry.kind,
            " ".join(words),
            extra={"event": entry.kind, **about, "said": said},
        )


def _is_said(entry: e.Entry, name: str) -> bool:
    return getattr(entry, name, None) not in (None, "")


def _short(value: object) -> str | int | float | bool:
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
