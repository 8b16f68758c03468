"""What is known of one outside attempt: a file with a line for each fact, only ever added to.

Whoever states something first is right, so that nobody has to hold a lock to state it, and a kill
at any moment leaves a fact in the file whole or not at all.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from targets import layout

Document = dict[str, Any]

OFFER: Final = "offer"
CLAIM: Final = "claim"
STOP: Final = "stop"
END: Final = "end"


@dataclass(slots=True)
class Facts:
    """Of each kind the first counts; whose claim was the first may claim again, and then only the
    latest token opens the attempt."""

    offer: Document | None = None
    claim: Document | None = None
    token: str = ""
    """Digest of the one that opens it."""
    claimed_at: Document | None = None
    """When that token was given."""
    stop: Document | None = None
    end: Document | None = None


def add_fact(path: Path, kind: str, content: Mapping[str, Any], *, create: bool = False) -> None:
    """Add a fact to the file. Raises OSError, FileNotFoundError where there is no file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags | (os.O_CREAT if create else 0), 0o600)
    try:
        layout.append_fact(descriptor, {kind: dict(content)})
    finally:
        os.close(descriptor)


def read_facts(path: Path) -> Facts | None:
    """None where there is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        data = os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
    facts = Facts()
    for line in data.split(b"\n"):
        if line:
            _note(facts, line)
    return facts


def _note(facts: Facts, line: bytes) -> None:
    try:
        ((kind, content),) = json.loads(line).items()
    except ValueError:
        return  # it was cut off
    if kind == CLAIM:
        _note_claim(facts, content)
    elif kind == OFFER:
        facts.offer = facts.offer or content
    elif kind == STOP:
        facts.stop = facts.stop or content
    elif kind == END:
        facts.end = facts.end or content


def _note_claim(facts: Facts, claim: Document) -> None:
    if facts.claim is None:
        facts.claim = claim
    if claim["client"] == facts.claim["client"]:
        facts.token, facts.claimed_at = claim["token"], claim["at"]
