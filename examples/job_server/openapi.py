"""The protocol as an OpenAPI document: `python -m examples.job_server.openapi FILE` writes it."""

import json
import sys
from pathlib import Path
from typing import cast

from examples.job_server.app import create_app
from examples.job_server.attempts import Attempts
from examples.job_server.blobs import Blobs
from examples.job_server.routes import Parts
from targets.protocol import Target

DESCRIPTION = (
    "How ARL runs attempts on a remote service. Every request carries arl-time, arl-nonce, "
    "arl-session and arl-signature, every answer arl-signature; how they are made, what may be "
    "repeated and who enforces what is in job-protocol.md beside this file."
)
SIGNATURE = {
    "type": "apiKey",
    "in": "header",
    "name": "arl-signature",
    "description": "HMAC-SHA256 of method, path and query, body digest, time, nonce and session",
}


def document() -> str:
    """Made from the reference service's own routes and models."""
    nothing = Parts(
        target=cast(Target, None),
        attempts=cast(Attempts, None),
        blobs=cast(Blobs, None),
        machines=None,
    )
    found = create_app(nothing, b"", lambda path: None).openapi()
    found["info"]["description"] = DESCRIPTION
    found["components"]["securitySchemes"] = {"signature": SIGNATURE}
    found["security"] = [{"signature": []}]
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
