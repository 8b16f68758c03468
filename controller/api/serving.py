"""`arl serve`: the HTTP server in this process, and a worker in one of its own beside it."""

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI

from controller.api.app import create_app
from controller.api.connections import PatientConnection, allow_files
from controller.api.keeping import Keeping
from controller.api.options import ApiOptions
from controller.api.sweeping import sweeping_beside
from controller.signals import heard_by
from controller.wiring import Service
from ledger.errors import InvalidInput
from ledger.tokens import has_tokens

log = logging.getLogger("arl.serve")

KEEP_ALIVE_S: Final = 30
GRACE_S: Final = 5
"""How long requests may go on once the server is told to stop; streams are cut then."""
HEAD_BYTES: Final = 32 * 1024
RESTART_S: Final = 1.0
LONGEST_RESTART_S: Final = 30.0
STEADY_S: Final = 60.0
"""A worker that lived so long is started again at once."""
END_S: Final = 10.0


def check_reach(service: Service, options: ApiOptions) -> None:
    """Raises InvalidInput where the server would be open to everybody."""
    if options.is_loopback:
        return
    with service.ledger.read() as session:
        if has_tokens(session):
            return
    raise InvalidInput(
        f"--host {options.host}: others can reach this address and there is no token: "
        "`arl token create NAME --scope admin` makes one"
    )


def serve(service: Service, options: ApiOptions, *, with_worker: bool) -> None:
    """Answer until a signal comes. Attempts go on running. Raises InvalidInput."""
    check_reach(service, options)
    allow_files(options.streams)
    app = create_app(service, options)
    config = server_config(app, options)
    keeping = Keeping(
        service.ledger, app.state.column_file, app.state.plot_data, app.state.tallies
    )
    beside = worker_beside() if with_worker else _nothing()
    with keeping.beside(), sweeping_beside(service), beside:
        _Server(config).run()


def server_config(app: FastAPI, options: ApiOptions) -> uvicorn.Config:
    """What every server of the API is made with."""
    return uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        http=PatientConnection,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )


class _Server(uvicorn.Server):
    """Stops at a signal and then lets the caller end; a second one leaves at once."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with heard_by(self.handle_exit):
            yield


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def worker_beside() -> Iterator[None]:
    """`arl worker` in a process of its own, started again whenever it ends."""
    keeper = _WorkerKeeper()
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()


class _WorkerKeeper(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="arl-worker-keeper", daemon=True)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        wait_s = RESTART_S
        while not self._stopping.is_set():
            began = time.monotonic()
            process = self._launch()
            if process is None:
                return
            code = process.wait()
            if self._stopping.is_set():
                return
            wait_s = (
                RESTART_S
                if time.monotonic() - began > STEADY_S
                else min(2 * wait_s, LONGEST_RESTART_S)
            )
            log.warning("the worker ended with status %d; again in %.0f s", code, wait_s)
            self._stopping.wait(wait_s)

    def _launch(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._stopping.is_set():
                return None
            # Of a group of its own: Ctrl-C in a terminal is for the server, which passes it on.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "controller.cli", "worker", "--until-stdin-closes"],
                stdin=subprocess.PIPE,  # closes when this process is gone, however it went
                process_group=0,
            )
            return self._process

    def stop(self) -> None:
        """Ask the worker to leave, and see that it does; its attempts go on."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
