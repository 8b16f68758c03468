"""Every router, in the order of the OpenAPI document."""

from typing import Final

from fastapi import APIRouter

from controller.api import events
from controller.api.routes import (
    access,
    artifacts,
    blobs,
    campaigns,
    candidates,
    commands,
    entries,
    exports,
    health,
    logs,
    model_evidence,
    models,
    notifications,
    outside,
    plans,
    plots,
    promotions_read,
    proposer,
    studies_read,
    system,
    trials,
    verifying,
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    studies_read.router,
    trials.router,
    exports.router,
    logs.router,
    artifacts.router,
    candidates.router,
    promotions_read.router,
    models.router,
    model_evidence.router,
    campaigns.router,
    plots.router,
    proposer.router,
    plans.router,
    events.router,
    entries.router,
    verifying.router,
    notifications.router,
    system.router,
    commands.router,
    blobs.router,
    outside.router,
    access.router,
)
"""Below /api/v1."""
ROOT_ROUTERS: Final[tuple[APIRouter, ...]] = (health.router,)
"""At the root."""
