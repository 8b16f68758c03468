"""A thousand open event streams: what they cost, and whether others are still answered."""

import contextlib
import math
import resource
import socket
import statistics
import time
from typing import Any

import httpx

from benchmarks.service_asking import submit
from benchmarks.service_server import Server

STREAMS = 1000
BEYOND = 5
"""Streams asked for when the limit is reached."""
_ASK = (
    "GET /api/v1/studies/{study}/events?since={since} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    "Accept: text/event-stream\r\n\r\n"
)


def hold_streams(server: Server, *, streams: int = STREAMS) -> dict[str, Any]:
    """Open so many of one study, list another's trials meanwhile, change the study once, and
    close them all. The server needs its worker."""
    study = submit(server.port, trials=4, clients=1, name="followed")
    _allow(streams + 200)
    memory_before, before = server.memory_mb(), server.descriptors()
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        page = "/api/v1/studies/bulk/trials?limit=50"
        quiet_ms = _listed_ms(client, page)
        _wait_for_running(client, study)
        since = client.get(f"/api/v1/studies/{study}/events?limit=1").json()["head_seq"]
        began = time.monotonic()
        opened = [_open(server, study, since) for _ in range(streams)]
        heads = [_read_until(one, b"\r\n\r\n") for one in opened]
        opened_s = time.monotonic() - began
        beyond = [_open(server, study, since) for _ in range(BEYOND)]
        refused = [_read_until(one, b"\r\n\r\n")[9:12].decode() for one in beyond]
        busy_ms = _listed_ms(client, page)
        began = time.monotonic()
        client.post(f"/api/v1/studies/{study}/pause").raise_for_status()
        until = began + 60
        told = sum(b"data: " in _read_until(one, b"data: ", until) for one in opened)
        told_s = time.monotonic() - began
        memory, held = server.memory_mb(), server.descriptors()
        for one in opened + beyond:
            one.close()
        left = _settled(client)
    time.sleep(0.5)
    return {
        "streams": sum(head.startswith(b"HTTP/1.1 200") for head in heads),
        "opened_s": opened_s,
        "beyond_the_limit": refused,
        "list_ms_before": quiet_ms,
        "list_ms_meanwhile": busy_ms,
        "told_of_one_event": told,
        "told_s": told_s,
        "memory_mb_before": memory_before,
        "memory_mb": memory,
        "descriptors": [before, held, server.descriptors()],
        "streams_left": left,
    }


def _allow(files: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(files, 1024), hard), hard))


def _open(server: Server, study: str, since: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    made.sendall(_ASK.format(study=study, since=since).encode())
    return made


def _read_until(connection: socket.socket, mark: bytes, deadline: float = math.inf) -> bytes:
    """What came, up to and with the mark; less when the time was over or the other end closed."""
    found, deadline = b"", min(deadline, time.monotonic() + 60)
    with contextlib.suppress(TimeoutError):
        while mark not in found and (left_s := deadline - time.monotonic()) > 0:
            connection.settimeout(left_s)
            piece = connection.recv(65536)
            if not piece:
                break
            found += piece
    return found


def _listed_ms(client: httpx.Client, page: str) -> float:
    times = []
    for _ in range(15):
        began = time.perf_counter()
        client.get(page).raise_for_status()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def _wait_for_running(client: httpx.Client, study: str) -> None:
    """Until its trials are offered and it has nothing to say by itself."""
    deadline = time.monotonic() + 60
    while client.get(f"/api/v1/studies/{study}").json()["state"] != "running":
        if time.monotonic() > deadline:
            raise RuntimeError(f"study {study} does not begin")
        time.sleep(0.05)
    time.sleep(1.0)


def _settled(client: httpx.Client) -> int:
    """Streams that the server still counts, five seconds after all were closed at the latest."""
    deadline = time.monotonic() + 5
    while True:
        left = int(client.get("/api/v1/system").raise_for_status().json()["streams"])
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)
