"""Every router, in the order of the OpenAPI document."""

from typing import Final

from fastapi import APIRouter

from controller.api.routes import access, health

ROUTERS: Final[tuple[APIRouter, ...]] = (access.router,)
"""Below /api/v1."""
ROOT_ROUTERS: Final[tuple[APIRouter, ...]] = (health.router,)
"""At the root."""
