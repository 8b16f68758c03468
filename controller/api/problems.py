"""Errors as problem documents (RFC 9457): one shape, no traces, no paths of this machine."""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from controller.api.methods import methods_at
from controller.api.strict_json import StrictResponse
from controller.spec.errors import StudyRefused
from ledger.errors import ArlError

log = logging.getLogger("arl.api")

MEDIA_TYPE: Final = "application/problem+json"
LONGEST: Final = 4000
_SECRET_PLACE: Final = re.compile(r"(token|secret|password|key|authorization)$", re.IGNORECASE)
_SHOWN: Final = 20
"""Findings of one request that are listed; the rest is counted."""

STATUS: Final[Mapping[str, int]] = {
    "malformed": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "too_slow": 408,
    "conflict": 409,
    "artifact_let_go": 410,
    "study_busy": 409,
    "stale_fence": 409,
    "illegal_transition": 409,
    "budget_exceeded": 409,
    "too_large": 413,
    "wrong_host": 421,
    "invalid_input": 422,
    "unknown_name": 422,
    "address_refused": 422,
    "too_many": 429,
    "bundle_changed": 409,
    "artifact_corrupt": 500,
    "proposer_failed": 500,
    "ledger_unavailable": 503,
    "ledger_too_new": 503,
    "ledger_too_old": 503,
    "ledger_restored": 503,
    "target_unavailable": 503,
    "disk_full": 507,
}
TITLES: Final[Mapping[int, str]] = {
    400: "The request cannot be read",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "No such method here",
    408: "Too slow",
    409: "Not in the present state",
    410: "Let go",
    413: "Too large",
    415: "Not JSON",
    421: "Not this server's name",
    422: "Not valid",
    429: "Too many",
    500: "A fault of the server",
    503: "Not now",
    507: "No space left",
}


class Finding(BaseModel):
    """One thing to change."""

    model_config = ConfigDict(extra="forbid")
    field: str = Field(examples=["space.learning_rate.low"])
    """Where it is; empty for the whole."""
    detail: str = Field(examples=["0 is not positive, which a log range must be"])


class Problem(BaseModel):
    """Why a request was refused."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "type": "/problems/not_found",
                    "title": "Not found",
                    "status": 404,
                    "code": "not_found",
                    "detail": "no study has the id or name nightly",
                    "instance": "/api/v1/studies/nightly",
                    "errors": [],
                }
            ]
        },
    )
    type: str
    """A URI reference that names the kind of problem: `/problems/` and the code."""
    title: str
    status: int
    code: str
    """A stable word for programs."""
    detail: str
    """One sentence for a person: the field, the value and the rule."""
    instance: str
    """The path that was asked for."""
    errors: list[Finding] = []
    """Each wrong field of a request that has several."""


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route's OpenAPI says of its refusals."""
    return {
        status: {
            "description": TITLES[status],
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in sorted({400, 401, 403, 408, 413, 421, 422, 500, 503, *statuses})
    }


class Refused(ArlError):
    """A refusal that only HTTP knows; `code` is one of STATUS."""

    def __init__(self, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.refusal = code
        self.headers = dict(headers or {})


def problem_response(
    instance: str,
    status: int,
    code: str,
    detail: str,
    *,
    errors: list[Finding] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    problem = Problem(
        type=f"/problems/{code}",
        title=TITLES.get(status, "Refused"),
        status=status,
        code=code,
        detail=detail[:LONGEST],
        instance=instance[:LONGEST],
        errors=errors or [],
    )
    return StrictResponse(
        problem.model_dump(mode="json"), status, headers=headers, media_type=MEDIA_TYPE
    )


def add_problems(app: FastAPI) -> None:
    """Every error that leaves a route becomes a problem document."""
    app.add_exception_handler(ArlError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_refusal)
    app.add_exception_handler(Exception, _on_bug)


def _on_error(request: Request, error: Exception) -> Response:
    code = error.refusal if isinstance(error, Refused) else getattr(error, "code", "error")
    status = STATUS.get(code, 500)
    findings = []
    if isinstance(error, StudyRefused):
        findings = [Finding(field=p.field, detail=str(p)) for p in error.problems[:_SHOWN]]
    if status >= 500:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    headers = error.headers if isinstance(error, Refused) else None
    detail = str(error)
    return problem_response(
        request.url.path, status, code, detail, errors=findings, headers=headers
    )


def _on_invalid(request: Request, error: Exception) -> Response:
    given = error.errors() if isinstance(error, RequestValidationError) else []
    findings = [_finding(found) for found in given[:_SHOWN]]
    detail = "; ".join(f"{f.field}: {f.detail}" if f.field else f.detail for f in findings)
    if len(given) > _SHOWN:
        detail += f"; and {len(given) - _SHOWN} more"
    return problem_response(request.url.path, 422, "invalid_input", detail, errors=findings)


def _finding(found: Mapping[str, Any]) -> Finding:
    """`body.budget.trials: Input should be …, not 'many'`; a secret is not repeated."""
    place = ".".join(str(part) for part in found.get("loc", ()))
    text = str(found.get("msg", "it is not valid"))
    value = found.get("input")
    if isinstance(value, str | int | float | bool) and not _SECRET_PLACE.search(place):
        text += f", not {str(value)[:100]!r}"
    return Finding(field=place[:200], detail=text[:500])


def _on_refusal(request: Request, error: Exception) -> Response:
    """The framework's own: a path or a method that is none."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    headers = error.headers if isinstance(error, HTTPException) else None
    if status in (404, 405) and (methods := methods_at(request.app, request.url.path)):
        status, headers = 405, {"Allow": ", ".join(methods)}
    code = {404: "not_found", 405: "no_such_method", 413: "too_large"}.get(status, "malformed")
    detail = f"{request.method} {request.url.path} is not part of this API"
    if status not in (404, 405):
        detail = str(getattr(error, "detail", detail))
    return problem_response(request.url.path, status, code, detail, headers=headers)


def _on_bug(request: Request, error: Exception) -> Response:
    log.error("%s %s", request.method, request.url.path, exc_info=error)
    detail = "the server met an error of its own; its log says which"
    return problem_response(request.url.path, 500, "internal", detail)
