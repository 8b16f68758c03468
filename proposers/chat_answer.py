"""Reads what an OpenAI-compatible server answered to a chat request, whatever it is."""

import email.utils
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from proposers.chat_outcomes import NoAnswer, Outcome
from proposers.chat_request import HttpAnswer
from proposers.chat_tokens import likely_tokens

MOST_TOKENS: Final = 10**9
"""No server counts more in one request; such a number is an error of its."""
_SHOWN: Final = 300
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_STATUSES: Final[Mapping[int, Outcome]] = {
    401: Outcome.UNAUTHORIZED,
    402: Outcome.UNAUTHORIZED,
    403: Outcome.UNAUTHORIZED,
    408: Outcome.SERVER_ERROR,
    409: Outcome.SERVER_ERROR,
    425: Outcome.SERVER_ERROR,
    429: Outcome.RATE_LIMITED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model said."""

    outcome: Outcome
    """One of chat_outcomes.ANSWERS."""
    text: str
    prompt_tokens: int
    completion_tokens: int


def read_answer(http: HttpAnswer, prompt: str) -> Answer:
    """The model's answer to the prompt. Raises NoAnswer: there is none in it."""
    if http.status != 200:
        raise _refusal(http)
    body = http.body.decode("utf-8", "replace")
    if not _is_json(http.content_type):
        said = http.content_type or "no type"
        raise NoAnswer(
            Outcome.WRONG_TYPE, f"status 200, but {said} instead of application/json", body=body
        )
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswer(Outcome.NOT_JSON, "the answer is no JSON, or half of one", body=body) from (
            None
        )
    if not isinstance(document, dict):
        raise NoAnswer(Outcome.MALFORMED, "the answer is no JSON object", body=body)
    text, outcome = _message(document, body)
    return _counted(document, outcome, text, prompt)


def _message(document: Mapping[str, object], body: str) -> tuple[str, Outcome]:
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        why = f"no chat completion: {_error_of(document) or 'choices[0].message is missing'}"
        raise NoAnswer(Outcome.MALFORMED, why, body=body)
    text = storable(_text(message.get("content")))
    refusal, finish = message.get("refusal"), choice.get("finish_reason")
    if finish == "content_filter" or (isinstance(refusal, str) and refusal and not text.strip()):
        return text or storable(refusal if isinstance(refusal, str) else ""), Outcome.REFUSED
    if finish == "length":
        return text, Outcome.CUT_SHORT
    return text, Outcome.ANSWERED if text.strip() else Outcome.EMPTY


def _counted(document: Mapping[str, object], outcome: Outcome, text: str, prompt: str) -> Answer:
    usage = document.get("usage")
    asked, made = (
        _count(usage.get(key)) if isinstance(usage, dict) else None
        for key in ("prompt_tokens", "completion_tokens")
    )
    if (asked is None or made is None) and outcome is Outcome.ANSWERED:
        outcome = Outcome.UNCOUNTED
    return Answer(
        outcome=outcome,
        text=text,
        prompt_tokens=likely_tokens(prompt) if asked is None else asked,
        completion_tokens=likely_tokens(text) if made is None else made,
    )


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _text(content: object) -> str:
    """Some servers give the content in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _refusal(http: HttpAnswer) -> NoAnswer:
    body = http.body.decode("utf-8", "replace")
    if 300 <= http.status < 400:
        outcome = Outcome.REDIRECTED
    elif http.status >= 500:
        outcome = Outcome.SERVER_ERROR
    else:
        outcome = _STATUSES.get(http.status, Outcome.REJECTED)
    detail = f"status {http.status}"
    if _is_json(http.content_type):
        try:
            document: object = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        said = _error_of(document) if isinstance(document, dict) else ""
        detail += f": {said}" if said else ""
    return NoAnswer(outcome, detail, retry_after_s=retry_after_s(http.headers), body=body)


def _error_of(document: Mapping[str, object]) -> str:
    error = document.get("error", document.get("detail"))
    if isinstance(error, dict):
        error = error.get("message")
    return " ".join(storable(error).split())[:_SHOWN] if isinstance(error, str) else ""


def _is_json(content_type: str) -> bool:
    return content_type == "application/json" or content_type.endswith("+json")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What Retry-After says, in seconds or as a date; None for nothing that can be read."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        until = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, until - time.time())


def storable(text: str) -> str:
    """Without what no database takes as text."""
    return _UNSTORABLE.sub("\ufffd", text)
