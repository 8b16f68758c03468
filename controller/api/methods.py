"""Which methods an address has, over all its routes: what a 405 has to say."""

import re
from typing import Final

from fastapi import FastAPI
from starlette.routing import compile_path

_METHODS: Final = ("delete", "get", "head", "patch", "post", "put")


def methods_at(app: FastAPI, path: str) -> list[str]:
    """In alphabetical order; none where nothing is. Where GET is, HEAD is, too."""
    own = own_methods_at(app, path)
    return sorted({*own, "HEAD"}) if "GET" in own else own


def own_methods_at(app: FastAPI, path: str) -> list[str]:
    """Those that a route was written for. A fixed address goes before a pattern."""
    table: list[tuple[re.Pattern[str], list[str]]] | None
    table = getattr(app.state, "methods", None)
    if table is None:
        table = app.state.methods = _table(app)
    return next((methods for pattern, methods in table if pattern.match(path)), [])


def _table(app: FastAPI) -> list[tuple[re.Pattern[str], list[str]]]:
    found: dict[str, list[str]] = app.openapi()["paths"]
    # OpenAPI has no word for a parameter that holds slashes; it is always the last one.
    return [
        (
            compile_path(re.sub(r"\{path\}\Z", "{path:path}", path))[0],
            [method.upper() for method in _METHODS if method in found[path]],
        )
        for path in sorted(found, key=lambda path: path.count("{"))
    ]
