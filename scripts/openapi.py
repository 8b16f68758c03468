"""Prints the OpenAPI document of the API, from which the dashboard's types are made."""

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from controller.api.app import create_app  # noqa: E402
from controller.api.options import ApiOptions  # noqa: E402
from controller.settings import read_settings  # noqa: E402
from controller.wiring import build_service  # noqa: E402


def document() -> dict[str, object]:
    """As a server answers it, whatever its settings."""
    with tempfile.TemporaryDirectory(prefix="arl-openapi-") as home:
        service = build_service(read_settings({"ARL_HOME": home}), create=True)
        try:
            return create_app(service, ApiOptions()).openapi()
        finally:
            service.close()


if __name__ == "__main__":
    print(json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False))
