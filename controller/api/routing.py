"""What every router has: strict JSON both ways, read for those who may ask, and its refusals in
the OpenAPI document.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from controller.api.access import Allowed
from controller.api.problems import documented
from controller.api.strict_json import Malformed, StrictResponse, parse
from controller.wiring import Service

LONG_BYTES: Final = 64 * 1024
"""A body beyond that is read in a thread: who streams is not kept waiting for it."""


@dataclass(frozen=True, slots=True)
class CheckedInside:
    """A dependency that says who may ask: the route checks it by itself, on the thread it has."""

    may: Allowed

    async def __call__(self) -> Allowed:
        return self.may


class StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            is_long = len(body) > LONG_BYTES
            self._json = await run_in_threadpool(parse, body) if is_long else parse(body)
        return self._json


class StrictRoute(APIRoute):
    """A route whose JSON body is read strictly. Who may not ask is refused for that, whatever the
    body is. Raises Malformed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler, may = super().get_route_handler(), _who_may(self.dependant)

        async def strict(request: Request) -> Response:
            wrapped = StrictRequest(request.scope, request.receive)
            if self.body_field is None:
                return await handler(wrapped)
            # Here, where an error is not taken for another.
            body = wrapped.state.body = await wrapped.body()
            try:
                if may is not None and len(body) > LONG_BYTES:
                    await run_in_threadpool(may, wrapped)
                if _is_json(request):
                    await wrapped.json()
                return await handler(wrapped)
            except (Malformed, RequestValidationError):
                if may is not None:
                    await run_in_threadpool(may, wrapped)
                raise

        return strict


def _who_may(dependant: Dependant) -> Allowed | None:
    """Whom a route answers, from what it depends on; None: everybody."""
    for one in dependant.dependencies:
        if isinstance(one.call, Allowed):
            return one.call
        if isinstance(one.call, CheckedInside):
            return one.call.may
        found = _who_may(one)
        if found is not None:
            return found
    return None


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.startswith("application/") and kind.endswith(("/json", "+json"))


def new_router(tag: str) -> APIRouter:
    """A router whose routes are listed under `tag`."""
    return APIRouter(
        route_class=StrictRoute,
        default_response_class=StrictResponse,
        tags=[tag],
        responses=documented(),
    )


def service_of(request: Request) -> Service:
    """A dependency: ledger, store and targets."""
    service: Service = request.app.state.service
    return service
