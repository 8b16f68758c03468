"""The API over a ledger in a temporary directory, as a test's own client sees it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from controller.api.app import create_app
from controller.api.options import ApiOptions
from controller.api.tokens import Scope, give_token
from controller.settings import read_settings
from controller.wiring import Service, build_service

HOST = "127.0.0.1"


@contextmanager
def api_over(home: Path, **options: Any) -> Iterator[TestClient]:
    """A client of the API over the ledger in `home`, which is made if it is missing."""
    settings = read_settings({"ARL_HOME": str(home)})
    service = build_service(settings, create=True)
    try:
        with client_of(service, **options) as client:
            yield client
    finally:
        service.close()


@contextmanager
def client_of(service: Service, **options: Any) -> Iterator[TestClient]:
    """A client of the API over an open service."""
    app = create_app(service, ApiOptions(**options))
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as client:
        yield client


def service_of(client: TestClient) -> Service:
    service: Service = client.app.state.service  # type: ignore[attr-defined]  # the application's
    return service


def token(client: TestClient, *scopes: str, expires_in_s: float | None = None) -> dict[str, str]:
    """The header of a new token with these scopes."""
    with service_of(client).ledger.write() as session:
        _, made = give_token(
            session,
            name="-".join(scopes),
            scopes=[Scope(scope) for scope in scopes],
            expires_in_s=expires_in_s,
            actor="test",
        )
    return {"Authorization": f"Bearer {made}"}
