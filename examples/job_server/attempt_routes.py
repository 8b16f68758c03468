"""The routes about attempts and what they leave."""

import time
from typing import Annotated

from fastapi import FastAPI, Query

from examples.job_server import outputs
from examples.job_server.attempts import Attempts
from examples.job_server.routes import BYTES, BytesResponse, Name, Offset, Owner, Wait
from inner_trials.contract import SCORE_BYTES
from targets.http_job import signing
from targets.http_job.documents import (
    AttemptDoc,
    AttemptsDoc,
    AttemptState,
    ObservationDoc,
    OutputsDoc,
)

LOG_PIECE_BYTES = 4 * 1024 * 1024


def add_attempts(app: FastAPI, attempts: Attempts) -> None:
    @app.put("/v1/attempts/{name}", tags=["attempts"])
    def submit(
        name: Name,
        doc: AttemptDoc,
        by: Annotated[
            float | None, Query(description="Not accepted after this time, seconds since 1970")
        ] = None,
    ) -> AttemptState:
        """Run an attempt, once: the same body again is the same attempt, another body is
        refused with 409. It runs as soon as there is room."""
        return attempts.submit(name, doc, by)

    @app.get("/v1/attempts/{name}", tags=["attempts"])
    def observe(
        name: Name, cursor: Annotated[str, Query(max_length=200)] = "", wait: Wait = 0.0
    ) -> ObservationDoc:
        """What it reported since a cursor, and how it ended; held back until there is some."""
        until = time.monotonic() + wait
        while True:
            seen = attempts.observe(name, cursor)
            told = seen.values or seen.requests or seen.rejected or seen.exit is not None
            if told or time.monotonic() >= until:
                return seen
            time.sleep(0.1)


def add_endings(app: FastAPI, attempts: Attempts) -> None:
    @app.post("/v1/attempts/{name}/stop", tags=["attempts"])
    def stop(name: Name) -> AttemptState:
        """Ask it to save and leave; it is killed after its grace period."""
        return attempts.stop(name)

    @app.post("/v1/attempts/{name}/kill", tags=["attempts"])
    def kill(name: Name) -> AttemptState:
        """End it and everything it started."""
        return attempts.kill(name)

    @app.delete("/v1/attempts/{name}", tags=["attempts"])
    def release(name: Name) -> AttemptState:
        """Delete what is left of an ended attempt, except its log."""
        attempts.release(name)
        return AttemptState(name=name, state="ended")

    @app.get("/v1/attempts", tags=["attempts"])
    def list_owned(owner: Owner, after: Annotated[str, Query(max_length=128)] = "") -> AttemptsDoc:
        """Every attempt of an owner that was not released, by name, a page at a time."""
        return attempts.list_owned(owner, after)


def add_files(app: FastAPI, attempts: Attempts) -> None:
    @app.get("/v1/attempts/{name}/outputs", tags=["files"])
    def listing(name: Name, after: Annotated[str, Query(max_length=20_000)] = "") -> OutputsDoc:
        """What an ended attempt left, by path, a page at a time."""
        root = attempts.outputs(name)
        return OutputsDoc(entries=[]) if root is None else outputs.list_outputs(root, after)

    @app.get("/v1/attempts/{name}/outputs/content", tags=["files"], responses=BYTES)
    def content(
        name: Name,
        path: Annotated[str, Query(max_length=20_000)],
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=outputs.PIECE_BYTES)] = outputs.PIECE_BYTES,
    ) -> BytesResponse:
        """Bytes of one file, by its path as the listing has it."""
        root = attempts.outputs(name)
        return BytesResponse(outputs.read_output(root or "/dev/null", path, offset, limit))

    @app.get("/v1/attempts/{name}/score", tags=["files"], responses=BYTES)
    def score(name: Name) -> BytesResponse:
        """What an ended prepare or evaluate attempt wrote on its score channel, capped."""
        return BytesResponse(attempts.score(name)[: SCORE_BYTES + 1])

    @app.get("/v1/attempts/{name}/log", tags=["files"], responses=BYTES)
    def read_log(
        name: Name,
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=0, le=LOG_PIECE_BYTES)] = LOG_PIECE_BYTES,
        wait: Wait = 0.0,
    ) -> BytesResponse:
        """Bytes of its combined output, also after its release. arl-offset is where they really
        begin, arl-size the size of the whole now."""
        chunk = attempts.read_log(name, offset, limit, wait)
        headers = {signing.OFFSET: str(chunk.offset), signing.SIZE: str(chunk.size)}
        return BytesResponse(chunk.data, headers=headers)
