"""The machine: workers and their leases, targets, the pool, the disk."""

from typing import Any

from fastapi import Request

from controller.api.events import feeds_of
from controller.api.models.system import SystemOut
from controller.api.reading import Reader, TheService
from controller.api.routing import new_router
from controller.api.system_document import system_document

router = new_router("system")


@router.get("/system", response_model=SystemOut)
def show_system(request: Request, _: Reader, service: TheService) -> dict[str, Any]:
    """Who works, what runs where, and what is left."""
    with service.ledger.read() as session:
        found = system_document(service, session)
    return {**found, "streams": feeds_of(request).streams}
