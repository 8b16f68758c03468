"""Keeps what a served model was asked and answered, of those who agreed, as files of an inbox."""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from controller.campaigns.records import LONGEST_WORD
from ledger.files import disk_full_at, write_all

COMPLETIONS: Final = "/v1/completions"
CHAT: Final = "/v1/chat/completions"
ROTATE_S: Final = 10.0
"""A file goes to the inbox after so long, or so many records, and at the end."""
ROTATE_RECORDS: Final = 500
DRAFT: Final = ".recording-"
"""Unfinished files begin so; what a killed recorder left is finished by the next one."""


@dataclass(slots=True)
class Counts:
    recorded: int = 0
    without_consent: int = 0
    unfit: int = 0
    """With consent, but not one text to one text: several prompts, tools, an answer cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its whole answer."""

    path: str
    asked: Mapping[str, Any]
    answered: bytes
    is_stream: bool
    consent_by: str
    at: str
    source: str
    policy: str


def consent_of(header: str | None) -> str | None:
    """Who agrees, by a request's header; None: nobody says so clearly."""
    said = (header or "").strip()
    return said if 0 < len(said) <= LONGEST_WORD and said.isprintable() else None


def records_of(exchange: Exchange) -> list[dict[str, Any]]:
    """One record for each answer; none where it is not a text, or messages, answered by texts."""
    asked = exchange.asked
    prompt = asked.get("messages" if exchange.path == CHAT else "prompt")
    is_chat = exchange.path == CHAT and isinstance(prompt, list) and not asked.get("tools")
    if not is_chat and not (exchange.path == COMPLETIONS and isinstance(prompt, str)):
        return []
    try:
        parts = _parts(exchange.answered, is_stream=exchange.is_stream)
        answers = _answers(parts)
    except (ValueError, RecursionError):
        return []
    found = []
    for text, ended in answers:
        completion: object = [{"role": "assistant", "content": text}] if is_chat else text
        found.append(
            {
                "prompt": prompt,
                "completion": completion,
                "ended": ended,
                "source": exchange.source,
                "policy": exchange.policy,
                "consent": {"given": True, "by": exchange.consent_by, "at": exchange.at},
            }
        )
    return found


def _parts(body: bytes, *, is_stream: bool) -> list[Mapping[str, Any]]:
    """The answer's documents: one, or those of its events. Raises ValueError."""
    if not is_stream:
        return [_object(body)]
    lines = (line.strip() for line in body.split(b"\n"))
    events = [line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:")]
    if not events or events[-1] != b"[DONE]":
        raise ValueError("the stream was cut off")
    return [_object(event) for event in events[:-1]]


def _object(text: bytes) -> Mapping[str, Any]:
    found = json.loads(text.decode("utf-8"))
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def _answers(parts: Sequence[Mapping[str, Any]]) -> list[tuple[str, bool]]:
    """Each choice's text, put together, with whether the model ended it; none that is not text."""
    texts: dict[int, list[str]] = {}
    ends: dict[int, object] = {}
    for part in parts:
        choices = part.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            place, text = _choice(choice)
            texts.setdefault(place, []).append(text)
            if choice.get("finish_reason") is not None:
                ends[place] = choice["finish_reason"]
    whole = [("".join(texts[place]), ends.get(place)) for place in sorted(texts)]
    return [(text, end == "stop") for text, end in whole if text and end in ("stop", "length")]


def _choice(choice: object) -> tuple[int, str]:
    """Its place and its text, which may be a piece; empty for what is no text."""
    if not isinstance(choice, dict):
        raise ValueError("a choice is no object")
    said = choice.get("message") or choice.get("delta") or {"content": choice.get("text")}
    text = said.get("content") if isinstance(said, dict) else None
    place = choice.get("index")
    return (place if type(place) is int else 0), (text if isinstance(text, str) else "")


@dataclass(slots=True)
class Recorder:
    """Writes records into a draft that becomes a file of the inbox. Thread-safe."""

    inbox: Path
    clock: Callable[[], float] = time.monotonic
    counts: Counts = field(default_factory=Counts)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _draft: Path | None = None
    _began: float = 0.0
    _written: int = 0
    _files: int = 0

    def finish_left(self) -> int:
        """Hand over what a killed recorder left; how many files."""
        left = sorted(self.inbox.glob(f"{DRAFT}*"))
        for path in left:
            os.replace(path, self.inbox / f"{path.name.removeprefix('.')}.left.jsonl")
        return len(left)

    def refuse(self) -> None:
        """Count one without consent: nothing of it comes here, and an empty line of the file lets
        the campaign count it as well. Raises DiskFull."""
        with self._lock:
            self._append(b"{}\n")
            self.counts.without_consent += 1
        self.rotate()

    def keep(self, exchange: Exchange) -> None:
        """Raises DiskFull; nothing of it is half written then."""
        records = records_of(exchange)
        with self._lock:
            if records:
                self._append("".join(json.dumps(one) + "\n" for one in records).encode())
                self.counts.recorded += len(records)
            else:
                self.counts.unfit += 1
        self.rotate()

    def rotate(self, *, now: bool = False) -> None:
        """Hand the draft over when it is old or large enough."""
        with self._lock:
            is_due = self.clock() - self._began >= ROTATE_S or self._written >= ROTATE_RECORDS
            if self._draft is not None and (now or is_due):
                name = f"{self._draft.name.removeprefix('.')}.jsonl"
                os.replace(self._draft, self.inbox / name)
                self._draft, self._written = None, 0

    def _append(self, lines: bytes) -> None:
        if self._draft is None:
            self._files += 1
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            self._draft = self.inbox / f"{DRAFT}{stamp}-{os.getpid()}-{self._files}"
            self._began = self.clock()
        with disk_full_at(self.inbox), self._draft.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                write_all(file.fileno(), lines)
            except OSError:
                file.truncate(before)
                raise
        self._written += lines.count(b"\n")
