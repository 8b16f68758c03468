"""The application: its routes, what stands around them, and its OpenAPI document."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

import anyio.to_thread
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from controller.api.guard import Guard
from controller.api.heads import HeadAsGet
from controller.api.metrics import Metrics
from controller.api.options import ApiOptions
from controller.api.plot_data import PlotData
from controller.api.problems import Finding, Problem, add_problems
from controller.api.routes import ROOT_ROUTERS, ROUTERS
from controller.api.static_files import add_dashboard
from controller.api.strict_json import StrictResponse
from controller.api.tallies import Tallies
from controller.wiring import Service
from ledger.column_file import ColumnFile

BASE: Final = "/api/v1"
THREADS: Final = 64
"""Requests that are worked on at the same time."""
SUMMARY: Final = "Studies, trials, candidates and promotions of an ARL ledger."
_REFERENCE: Final = "#/components/schemas/{model}"
_SECURITY: Final = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `arl token create`. Needed as soon as one was made, and "
        "always beyond this machine.",
    }
}


def create_app(service: Service, options: ApiOptions) -> FastAPI:
    """The API and the dashboard over an open service, which stays the caller's to close."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield
        app.state.column_file.close()

    app = FastAPI(
        title="ARL",
        version=version("arl"),
        lifespan=lifespan,
        openapi_url=f"{BASE}/openapi.json",
        docs_url=None,
        redoc_url=None,
        default_response_class=StrictResponse,
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.options = options
    app.state.metrics = Metrics(service)
    column_file = ColumnFile(service.settings.columns_folder, service.ledger.id)
    app.state.column_file = column_file
    app.state.plot_data = PlotData(column_file)
    app.state.tallies = Tallies(column_file)
    for router in ROUTERS:
        app.include_router(router, prefix=BASE)
    for router in ROOT_ROUTERS:
        app.include_router(router)
    add_dashboard(app, options.static)
    add_problems(app)
    app.add_middleware(HeadAsGet)
    app.add_middleware(Guard, options=options, metrics=app.state.metrics)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]  # as FastAPI documents it
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document, with problem documents and tokens as they are here."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, summary=SUMMARY, routes=app.routes
        )
        components = made.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        for model in (Problem, Finding):
            schema = model.model_json_schema(ref_template=_REFERENCE)
            schema.pop("$defs", None)
            schemas[model.__name__] = schema
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        components["securitySchemes"] = _SECURITY
        made["security"] = [{"token": []}, {}]
        app.openapi_schema = made
    return app.openapi_schema
