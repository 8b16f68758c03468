"""The API behind a real socket, in a thread of the test's process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from controller.api.app import create_app
from controller.api.options import ApiOptions
from controller.api.serving import server_config
from controller.wiring import Service


@contextmanager
def api_server(service: Service, **options: Any) -> Iterator[str]:
    """The server's address; it is stopped, and has let go of the ledger, afterwards."""
    asked = ApiOptions(port=0, **options)
    config = server_config(create_app(service, asked), asked)
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="api")
    thread.start()
    try:
        until = time.monotonic() + 20
        while not server.started:
            assert time.monotonic() < until
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)


class Followed:
    """A stream of server-sent events, as a client reads it."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.iter_lines()
        self.comments = 0

    def next(self) -> tuple[str, str]:
        """Id and data of the next event."""
        place, data = "", ""
        for line in self._lines:
            if line.startswith(":"):
                self.comments += 1
            elif line.startswith("id: "):
                place = line[4:]
            elif line.startswith("data: "):
                data = line[6:]
            elif not line and data:
                return place, data
        raise EOFError


@contextmanager
def following(url: str, **headers: str) -> Iterator[Followed]:
    """What the server tells from now on; headers with `_` for `-`."""
    sent = {"Accept": "text/event-stream", **{k.replace("_", "-"): v for k, v in headers.items()}}
    with (
        httpx.Client(timeout=20, trust_env=False) as client,
        client.stream("GET", url, headers=sent) as response,
    ):
        if response.status_code != 200:
            response.read()
            response.raise_for_status()
        yield Followed(response)
