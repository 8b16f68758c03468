"""JSON as the standard means it, both ways: no NaN, no key twice, no bottomless nesting."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from ledger.errors import ArlError

DEPTH: Final = 40


class Malformed(ArlError):
    """The body is not the JSON that this API reads."""

    code = "malformed"


class StrictResponse(JSONResponse):
    """JSON without NaN: a document that may hold one was flagged before it came here."""

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # A lone surrogate in a candidate's words must not make its page unreadable.
        return text.encode("utf-8", "replace")


class StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = parse(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route whose JSON body is read strictly. Raises Malformed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            wrapped = StrictRequest(request.scope, request.receive)
            if self.body_field is not None:
                # Here, where an error is not taken for another.
                wrapped.state.body = await wrapped.body()
                if _is_json(request):
                    await wrapped.json()
            return await handler(wrapped)

        return strict


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.startswith("application/") and kind.endswith(("/json", "+json"))


def parse(body: bytes) -> Any:
    """The value of a JSON text. Raises Malformed."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8: byte {error.start}") from error
    _check_depth(text)
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_repeats)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"the body is not JSON: {error.msg} at {where}") from error
    except ValueError as error:  # an integer of too many digits
        raise Malformed(f"the body is not JSON that this API reads: {error}") from error


def _check_depth(text: str) -> None:
    depth, in_string, escaped = 0, False, False
    for char in text:
        if in_string:
            escaped, in_string = (char == "\\" and not escaped), (char != '"' or escaped)
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            if depth > DEPTH:
                raise Malformed(f"the body is nested more than {DEPTH} levels deep")
        elif char in "]}":
            depth -= 1


def _no_constant(word: str) -> Any:
    raise Malformed(f"the body is not JSON: {word} is no number there; write null")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Malformed(f"the body is not JSON that this API reads: two of {twice[:100]!r}")
    return found
