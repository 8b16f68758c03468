"""The application: routes, signatures around them, and errors as problem documents."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from examples.job_server.attempt_routes import add_attempts, add_endings, add_files
from examples.job_server.routes import Parts, add_blobs, add_machines, add_service
from examples.job_server.security import Signed
from ledger.errors import ArlError
from targets.http_job.client import InputsMissing
from targets.http_job.documents import VERSION, Problem

log = logging.getLogger("job_server")

THREADS = 200
"""Requests that may be held back for news at once."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": text}
    for code, text in (
        (401, "Not signed, or for another session or time"),
        (404, "Not known"),
        (409, "Not now: other_body, still_running, inputs_missing"),
        (410, "Too late"),
        (413, "Too large"),
        (422, "Not valid"),
        (503, "Not now: busy, disk_full; ask again"),
    )
}


def create_app(parts: Parts, key: bytes, heard: Callable[[str], None]) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield

    app = FastAPI(
        title="ARL job protocol",
        version=str(VERSION),
        lifespan=lifespan,
        openapi_url=None,
        responses=PROBLEMS,
    )
    app.add_middleware(Signed, key=key, heard=heard)
    app.add_exception_handler(ArlError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_refusal)
    app.add_exception_handler(Exception, _on_bug)
    add_service(app, parts)
    add_blobs(app, parts)
    add_attempts(app, parts.attempts)
    add_endings(app, parts.attempts)
    add_files(app, parts.attempts)
    add_machines(app, parts)
    return app


STATUS = {
    "not_found": 404,
    "other_body": 409,
    "conflict": 409,
    "inputs_missing": 409,
    "stale_fence": 410,
    "too_large": 413,
    "invalid_input": 422,
    "unknown_name": 422,
    "artifact_corrupt": 422,
    "disk_full": 503,
    "target_unavailable": 503,
}
WORDS = {
    "conflict": "still_running",
    "stale_fence": "late",
    "target_unavailable": "busy",
    "unknown_name": "invalid_input",
    "artifact_corrupt": "invalid_input",
}


def _problem(problem: Problem) -> JSONResponse:
    return JSONResponse(
        problem.model_dump(mode="json"), problem.status, media_type="application/problem+json"
    )


def _on_error(request: Request, error: Exception) -> Response:
    code = getattr(error, "code", "error")
    missing = error.missing[:20_000] if isinstance(error, InputsMissing) else []
    return _problem(
        Problem(
            status=STATUS.get(code, 500),
            code=WORDS.get(code, code),
            detail=str(error)[:2000],
            missing=missing,
        )
    )


def _on_invalid(request: Request, error: Exception) -> Response:
    detail = "the request is not valid"
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        detail = f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return _problem(Problem(status=422, code="invalid_input", detail=detail[:2000]))


def _on_refusal(request: Request, error: Exception) -> Response:
    """The framework's own: a path or method that is none, a body that is no JSON."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    if status == 400:
        return _problem(Problem(status=422, code="invalid_input", detail="the body is no JSON"))
    detail = f"{request.method} {request.url.path}: not part of the protocol"[:2000]
    return _problem(Problem(status=status, code="unsupported", detail=detail))


def _on_bug(request: Request, error: Exception) -> Response:
    log.error("%s %s", request.method, request.url.path, exc_info=error)
    return _problem(Problem(status=500, code="internal", detail="see the service's log"))
