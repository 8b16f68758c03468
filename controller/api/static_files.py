"""The dashboard's built files: one page for every address, and assets that never change."""

from pathlib import Path
from typing import Final

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import FileResponse, PlainTextResponse

FOREVER: Final = "public, max-age=31536000, immutable"
MISSING: Final = (
    "The dashboard is not built into this installation: `bash scripts/build_web.sh` builds it.\n"
    "The API is at /api/v1, its description at /api/v1/openapi.json.\n"
)
_OURS: Final = ("api/", "problems/", "healthz", "readyz", "metrics")


def add_dashboard(app: FastAPI, root: Path) -> None:
    """Serve what lies below `root`; every other address is a page of the dashboard itself."""
    files = _files(root)

    @app.api_route("/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def dashboard(path: str) -> Response:
        if path.startswith(_OURS):
            raise HTTPException(404)
        if path in files:
            # Their names hold a digest of their content.
            caching = FOREVER if path.startswith("assets/") else "no-cache"
            return FileResponse(files[path], headers={"Cache-Control": caching})
        if path.startswith("assets/") or "index.html" not in files:
            status = 404 if path.startswith("assets/") else 503
            return PlainTextResponse(MISSING, status)
        return FileResponse(files["index.html"], headers={"Cache-Control": "no-cache"})


def _files(root: Path) -> dict[str, Path]:
    """Every file that may be served, by its address: nothing else can be asked for."""
    if not root.is_dir():
        return {}
    return {str(file.relative_to(root)): file for file in root.rglob("*") if file.is_file()}
