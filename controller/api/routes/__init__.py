"""Every router, in the order of the OpenAPI document."""

from typing import Final

from fastapi import APIRouter

from controller.api import events
from controller.api.routes import (
    access,
    blobs,
    candidates,
    commands,
    entries,
    health,
    models,
    outside,
    plots,
    promotions_read,
    studies_read,
    trials,
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    studies_read.router,
    trials.router,
    candidates.router,
    promotions_read.router,
    models.router,
    plots.router,
    events.router,
    entries.router,
    commands.router,
    blobs.router,
    outside.router,
    access.router,
)
"""Below /api/v1."""
ROOT_ROUTERS: Final[tuple[APIRouter, ...]] = (health.router,)
"""At the root."""
