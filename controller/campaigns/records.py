"""One record of experience: checked, with consent or not at all, and on which side it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from controller.decisions.campaigns import prompt_digest
from inner_trials.contamination import prompt_of
from inner_trials.data import DataError, Row, training_example
from ledger.digests import json_digest

LARGEST: Final = 1e60
LONGEST_WORD: Final = 200
"""Of who consented, of a source, of a policy's name."""
_OWN: Final = frozenset(
    "consent source policy reward rewards ended prompt_tokens completion_tokens logprobs".split()
)
"""What is about the record; everything else of it is the row that is trained on."""


class NoConsent(Exception):
    """Nobody said yes to this record, or it is not said who and when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A prompt, what was answered, and who agreed to its use."""

    digest: str
    """Of everything that it says: the same record sent twice is one."""
    row: Mapping[str, Any]
    """`prompt`, `completion` and what a verifier reads, as a training program reads it."""
    prompt: str
    """Normalised, as the contamination check compares prompts."""
    source: str
    policy: str
    """Which served model answered, like adder@0123456789ab; empty where it is not said."""
    consent_by: str
    consent_at: str
    reward: float | None
    rewards: Mapping[str, float | None] = field(default_factory=dict)
    ended: bool = True
    prompt_tokens: list[int] | None = None
    completion_tokens: list[int] | None = None
    logprobs: list[float] | None = None

    @property
    def prompt_revision(self) -> str:
        """Digest of the prompt, which alone decides the side it is on."""
        return prompt_digest(self.prompt)


def read_record(fields: Mapping[str, Any], where: str) -> Record:
    """The record that a line holds.

    Raises:
        NoConsent: whatever else it says, it may not be kept.
        DataError: a field is not as it has to be; the message names it, not what it says.
    """
    by, at = _consent(fields.get("consent"))
    row = {name: value for name, value in fields.items() if name not in _OWN}
    training_example(Row(row, where))
    try:
        digest = json_digest(dict(fields))
    except ValueError:
        raise DataError(f"{where}: a number is not finite; write null, or leave it out") from None
    tokens = _tokens(fields, where)
    ended = fields.get("ended", True)
    if not isinstance(ended, bool):
        raise DataError(f"{where}: ended must be true or false")
    return Record(
        digest=digest,
        row=row,
        prompt=prompt_of(row),
        source=_word(fields, "source", where),
        policy=_word(fields, "policy", where),
        consent_by=by,
        consent_at=at,
        reward=_number(fields.get("reward"), f"{where}: reward"),
        rewards=_rewards(fields.get("rewards"), where),
        ended=ended,
        **tokens,
    )


def _consent(said: object) -> tuple[str, str]:
    """Who and when. Raises NoConsent for anything but a clear yes."""
    if not isinstance(said, Mapping) or said.get("given") is not True:
        raise NoConsent
    by, at = said.get("by"), said.get("at")
    if not isinstance(by, str) or not by.strip() or len(by) > LONGEST_WORD:
        raise NoConsent
    try:
        moment = datetime.fromisoformat(at if isinstance(at, str) else "")
    except ValueError:
        raise NoConsent from None
    if moment.tzinfo is None:
        raise NoConsent
    return by, moment.isoformat()


def _word(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str) or len(value) > LONGEST_WORD:
        raise DataError(f"{where}: {name} must be a text of at most {LONGEST_WORD} characters")
    return value


def _number(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if -LARGEST < value < LARGEST:
            return float(value)
    raise DataError(f"{where} must be a finite number, or null")


def _rewards(value: object, where: str) -> dict[str, float | None]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: rewards must be an object with a number for each name")
    return {str(name): _number(one, f"{where}: rewards.{name}") for name, one in value.items()}


def _tokens(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The tokens and log-probabilities of who sampled it, where it gives them."""
    found: dict[str, Any] = {}
    for name in ("prompt_tokens", "completion_tokens"):
        value = fields.get(name)
        if value is not None and not _are_tokens(value):
            raise DataError(f"{where}: {name} must be a list of token numbers from 0")
        found[name] = value
    logprobs = fields.get("logprobs")
    if logprobs is not None:
        is_list = isinstance(logprobs, list) and found["completion_tokens"] is not None
        if not is_list or len(logprobs) != len(found["completion_tokens"]):
            raise DataError(f"{where}: logprobs must have one number for each completion token")
        logprobs = [_number(one, f"{where}: logprobs") for one in logprobs]
        if None in logprobs:
            raise DataError(f"{where}: logprobs must have one number for each completion token")
    found["logprobs"] = logprobs
    return found


def _are_tokens(value: object) -> bool:
    return isinstance(value, list) and all(
        type(token) is int and 0 <= token < 2**31 for token in value
    )
