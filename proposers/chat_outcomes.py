"""What can come of a request to a language model: a closed list."""

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """One try. Everything up to EMPTY was answered by the model, and is charged."""

    ANSWERED = "answered"
    UNCOUNTED = "uncounted"
    """Answered, but the server said nothing of tokens: they are estimated."""
    CUT_SHORT = "cut_short"
    """The answer reached max_tokens before its end."""
    REFUSED = "refused"
    """The model declined, or a filter of the server did."""
    EMPTY = "empty"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    CUT_OFF = "cut_off"
    """The connection ended before the answer did."""
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    WRONG_TYPE = "wrong_type"
    """Not JSON by its own word: the page of a proxy, mostly."""
    NOT_JSON = "not_json"
    MALFORMED = "malformed"
    """JSON, but no chat completion."""
    TOO_LARGE = "too_large"
    REDIRECTED = "redirected"
    REJECTED = "rejected"
    """The server does not take such a request."""
    UNAUTHORIZED = "unauthorized"
    STOPPED = "stopped"
    """The worker let go of its proposer."""


ANSWERS: Final = frozenset(
    {Outcome.ANSWERED, Outcome.UNCOUNTED, Outcome.CUT_SHORT, Outcome.REFUSED, Outcome.EMPTY}
)
FINAL: Final = frozenset(
    {Outcome.REDIRECTED, Outcome.REJECTED, Outcome.UNAUTHORIZED, Outcome.STOPPED}
)
"""What the same request would meet again at once."""


class NoAnswer(Exception):
    """One try that brought nothing, and how long the server asked to be left alone."""

    def __init__(
        self, outcome: Outcome, detail: str, *, retry_after_s: float | None = None, body: str = ""
    ) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail
        self.retry_after_s = retry_after_s
        self.body = body
        """The beginning of what came instead."""
