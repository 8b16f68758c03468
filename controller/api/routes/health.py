"""Whether the server lives, and whether it can work: for load balancers, without a token."""

from typing import Annotated, Literal

from fastapi import Depends, Request, Response

from controller.api.access import Allowed, Principal
from controller.api.metrics import CONTENT_TYPE
from controller.api.models.wire import Out, example
from controller.api.routing import new_router, service_of
from controller.api.tokens import Scope
from controller.wiring import Service
from ledger import reads

router = new_router("health")


class Health(Out):
    model_config = example({"status": "ok"})
    status: Literal["ok"]


@router.get("/healthz", response_model=Health)
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(request: Request, _: Annotated[Principal, Depends(Allowed(Scope.READ))]) -> Response:
    """Counts and times in Prometheus' text format."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE)


@router.get("/readyz", response_model=Health)
def readyz(service: Annotated[Service, Depends(service_of)]) -> dict[str, str]:
    """The ledger answers, too; 503 while it does not."""
    with service.ledger.read() as session:
        reads.claimable_studies(session)
    return {"status": "ok"}
