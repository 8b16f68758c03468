"""The `notify` section of a study file: which webhooks are told of what."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import Field, TypeAdapter, ValidationError

from controller.spec.errors import Problem, shown
from controller.spec.strict import Strict
from ledger.errors import InvalidInput
from ledger.records import Json

MOST_WEBHOOKS: Final = 10
LONGEST_URL: Final = 2000
SECRET: Final = re.compile(r"ARL_SECRET_[A-Z0-9_]{1,80}\Z")
# Narrower than what an address may be: every reader of one then sees the same host in it.
_URL: Final = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
    r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?\Z"
)


class Event(StrEnum):
    """What a webhook may be told of."""

    STUDY_COMPLETED = "study_completed"
    STUDY_FAILED = "study_failed"
    STUDY_CANCELLED = "study_cancelled"
    STUDY_PAUSED = "study_paused"
    """By a condition: a full disk, a target that does not answer. Not by a person."""
    PROPOSER_WAITS = "proposer_waits"
    BUDGET_EXHAUSTED = "budget_exhausted"
    PROMOTION_AWAITING = "promotion_awaiting"
    PROMOTION_REFUSED = "promotion_refused"
    CANDIDATE_PROMOTED = "candidate_promoted"
    CANDIDATE_KEPT = "candidate_kept"
    TRIAL_FAILED = "trial_failed"


DEFAULT_EVENTS: Final = (
    Event.STUDY_COMPLETED,
    Event.STUDY_FAILED,
    Event.STUDY_CANCELLED,
    Event.STUDY_PAUSED,
    Event.PROPOSER_WAITS,
    Event.PROMOTION_AWAITING,
    Event.CANDIDATE_PROMOTED,
)


class NotifySpec(Strict):
    """A webhook that is told, as docs/service.md says, of what happens to the study."""

    webhook: Annotated[str, Field(min_length=1, max_length=LONGEST_URL)]
    """Where to POST, like https://example.org/hooks/arl. It is stored and shown to whoever may
    read the study."""
    on: tuple[Event, ...] = DEFAULT_EVENTS
    """What it is told of; also budget_exhausted, promotion_refused, candidate_kept and
    trial_failed."""
    secret: str | None = None
    """ARL's environment variable, ARL_SECRET_…, that holds the secret both sides know; default:
    what is sent is not signed."""


_SECTION: Final = TypeAdapter(tuple[NotifySpec, ...])


def read_notify(document: Mapping[str, Json]) -> tuple[NotifySpec, ...]:
    """The section of a study file that was accepted, whatever else of it this ARL can read.
    Raises InvalidInput for one that another ARL wrote."""
    try:
        return _SECTION.validate_json(json.dumps(document.get("notify") or []))
    except ValidationError as error:
        raise InvalidInput(
            f"notify: this ARL cannot read it: {error.error_count()} faults"
        ) from None


def webhook_problems(notify: Sequence[NotifySpec]) -> Iterator[Problem]:
    """What is wrong with the section beyond what its fields say by themselves."""
    if len(notify) > MOST_WEBHOOKS:
        yield Problem(
            "notify",
            f"a study has at most {MOST_WEBHOOKS} webhooks",
            "let one of them tell the others",
            f"{len(notify)} of them",
        )
    seen: set[str] = set()
    for index, one in enumerate(notify):
        where = f"notify[{index}]"
        yield from _address(f"{where}.webhook", one.webhook)
        if one.webhook in seen:
            yield Problem(
                f"{where}.webhook",
                "it is listed already",
                "write all its events under one of them",
                shown(one.webhook),
            )
        seen.add(one.webhook)
        yield from _events(f"{where}.on", one.on)
        if one.secret is not None and SECRET.match(one.secret) is None:
            # What stands there may be the secret itself: it is not repeated.
            yield Problem(
                f"{where}.secret",
                "it is the name of an environment variable of ARL's, never the secret itself",
                "write a name like ARL_SECRET_HOOKS",
            )


def _events(field: str, events: Sequence[Event]) -> Iterator[Problem]:
    if not events:
        yield Problem(field, "it is told of nothing", "name an event, or leave it out", "[]")
    for place, event in enumerate(events):
        if event in events[:place]:
            yield Problem(f"{field}[{place}]", "it is listed already", "remove it", shown(event))


def _address(field: str, url: str) -> Iterator[Problem]:
    rule, remedy = _fault(url)
    if rule:
        hides = re.search(r"[?#]|//[^/]*@", url)  # a key may: it is not repeated
        yield Problem(field, rule, remedy, "" if hides else shown(url))


def _fault(url: str) -> tuple[str, str]:
    """What rule an address breaks and what to write instead; empty where it breaks none."""
    example = "https://example.org/hooks/arl"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is no address", f"write one like {example}"
    if parts.scheme not in ("http", "https"):
        return "a webhook is asked over http or https", f"write one like {example}"
    if not parts.hostname:
        return "it names no host", f"write one like {example}"
    if parts.username is not None or parts.password is not None:
        return "user and password would be stored", "remove them, and sign with notify.secret"
    if "?" in url or "#" in url:
        return "? and # often hold keys, which would be stored", "write the address without them"
    if port == 0 or _URL.match(url) is None:
        return (
            "an address has letters, digits, - . _ in its host, a port from 1 to 65535, and "
            "nothing but plain characters and %XX after it",
            f"write one like {example}",
        )
    return "", ""
