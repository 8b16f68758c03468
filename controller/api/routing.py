"""What every router has: strict JSON both ways, and its refusals in the OpenAPI document."""

from fastapi import APIRouter, Request

from controller.api.problems import documented
from controller.api.strict_json import StrictResponse, StrictRoute
from controller.wiring import Service


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
