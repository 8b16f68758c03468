"""What a verifier is: a judge of one completion against its row, with a name and a revision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

MAX_COMPLETION_CHARS: Final = 256 * 1024
"""A longer completion is malformed, whatever it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a verifier says of one completion."""

    reward: float
    """From 0 to 1; 0 for whatever is malformed."""
    well_formed: bool
    """Whether an answer could be read from the completion at all."""
    reason: str
    """In a few words, for people: `equal`, `another value`, `no answer`, `time-out` …"""


RIGHT: Final = Verdict(reward=1.0, well_formed=True, reason="equal")
WRONG: Final = Verdict(reward=0.0, well_formed=True, reason="another value")


def malformed(reason: str) -> Verdict:
    return Verdict(reward=0.0, well_formed=False, reason=reason)


class BadReferenceError(ValueError):
    """A row does not hold what this verifier compares with; one line says which field and why."""


@runtime_checkable
class Verifier(Protocol):
    """Deterministic, without state, and harmless whatever a completion holds: it never raises
    because of one, and never runs longer than its limits say."""

    @property
    def version(self) -> str:
        """`math/2`: another revision may judge differently. Kept with every reward."""
        ...

    def check(self, row: Mapping[str, Any]) -> None:
        """Raises BadReferenceError: the row has nothing this verifier can compare with."""
        ...

    def verify(self, completion: str, row: Mapping[str, Any]) -> Verdict: ...


def reference_texts(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The accepted answers of a row: `answer`, or else `completion`; one text, or a list of them.

    Raises:
        BadReferenceError: there is none, or it is no text.
    """
    name = "answer" if "answer" in row else "completion"
    if name not in row:
        found = ", ".join(sorted(row)) or "nothing"
        raise BadReferenceError(f"answer is missing (found: {found}); write what is right")
    given = row[name]
    texts = given if isinstance(given, list) and given else [given]
    read = []
    for text in texts:
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise BadReferenceError(f"{name}: {text!r} is not a text, a number or a list of these")
        read.append(str(text))
    return tuple(read)
