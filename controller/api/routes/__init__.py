"""Every router, in the order of the OpenAPI document."""

from typing import Final

from fastapi import APIRouter

from controller.api.routes import access, blobs, commands, health, studies_read, trials

ROUTERS: Final[tuple[APIRouter, ...]] = (
    studies_read.router,
    trials.router,
    commands.router,
    blobs.router,
    access.router,
)
"""Below /api/v1."""
ROOT_ROUTERS: Final[tuple[APIRouter, ...]] = (health.router,)
"""At the root."""
