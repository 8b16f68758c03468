"""The routes about the service itself, files by digest, and machines."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

import anyio.to_thread
from fastapi import FastAPI, Path, Query, Request, Response

from examples.job_server.attempts import Attempts
from examples.job_server.blobs import Blobs
from examples.job_server.machines import Machines, check_machine
from ledger.errors import InvalidInput
from targets import wire
from targets.http_job import signing
from targets.http_job.documents import (
    VERSION,
    BlobsAsked,
    BlobsMissing,
    BlobState,
    FingerprintDoc,
    HealthDoc,
    MachineAsked,
    MachineDoc,
    MachinesDoc,
    NewsDoc,
    ProgramAsked,
    ProgramDoc,
)
from targets.protocol import Target

NAME = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"
DIGEST = "^[0-9a-f]{64}$"

Name = Annotated[str, Path(pattern=NAME)]
Digest = Annotated[str, Path(pattern=DIGEST)]
Owner = Annotated[str, Query(pattern=NAME)]
Wait = Annotated[float, Query(ge=0, le=60, description="Seconds to hold the answer back")]
Offset = Annotated[int, Query(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes need."""

    target: Target
    attempts: Attempts
    blobs: Blobs
    machines: Machines | None


class BytesResponse(Response):
    media_type = "application/octet-stream"


BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    }
}


def add_service(app: FastAPI, parts: Parts) -> None:
    @app.get("/v1/health", tags=["service"])
    def health() -> HealthDoc:
        """What this service is and can."""
        target = parts.target
        return HealthDoc(
            protocol=VERSION,
            time=time.time(),
            target=target.name,
            sandbox=target.is_sandbox,
            images=target.name == "docker",
            egress=target.is_sandbox,
            machines=parts.machines is not None,
            attempts=parts.attempts.count(),
        )

    @app.post("/v1/pin", tags=["service"])
    def pin(asked: ProgramAsked) -> ProgramDoc:
        """The program with its image by digest."""
        _check_machine(parts, asked)
        return wire.program_doc(parts.target.pin(wire.program_of(asked.program)))

    @app.post("/v1/fingerprint", tags=["service"])
    def fingerprint(asked: ProgramAsked) -> FingerprintDoc:
        """What of the environment may change a result."""
        _check_machine(parts, asked)
        text = parts.target.fingerprint(wire.program_of(asked.program))
        return FingerprintDoc(fingerprint=text[:2000])

    @app.get("/v1/news", tags=["attempts"])
    def news(after: Annotated[str, Query(max_length=200)] = "", wait: Wait = 0.0) -> NewsDoc:
        """Which attempts changed after a cursor, as soon as one does. An empty or foreign cursor
        is answered at once with one to begin with."""
        return parts.attempts.news(after, wait)


def _check_machine(parts: Parts, asked: ProgramAsked) -> None:
    """Machines are of this very machine, so programs are here what they are there."""
    if asked.machine is not None:
        _machines(parts)
        check_machine(asked.machine)


def _machines(parts: Parts) -> Machines:
    if parts.machines is None:
        raise InvalidInput("target.machine: this service creates no machines; leave it out")
    return parts.machines


def add_blobs(app: FastAPI, parts: Parts) -> None:
    @app.post("/v1/blobs/missing", tags=["blobs"])
    def missing(asked: BlobsAsked) -> BlobsMissing:
        """Which of many files are not here whole, and how many bytes of them are."""
        return BlobsMissing(missing=parts.blobs.missing(asked.digests))

    @app.head("/v1/blobs/{digest}", tags=["blobs"])
    def look(digest: Digest) -> BytesResponse:
        """200 when the file is here; else 404 with how much of it is in arl-offset."""
        received = parts.blobs.received(digest)
        headers = {} if received is None else {signing.OFFSET: str(received)}
        return BytesResponse(status_code=200 if received is None else 404, headers=headers)

    @app.put(
        "/v1/blobs/{digest}",
        tags=["blobs"],
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                },
            }
        },
    )
    async def put(
        request: Request,
        digest: Digest,
        size: Annotated[int, Query(ge=0, le=2**53)],
        offset: Offset = 0,
    ) -> BlobState:
        """A piece of a file, of at most 4 MiB, from `offset` on. The answer says how much is
        here: a piece that begins beyond that is not taken. The whole is checked against its
        digest."""
        data = await request.body()
        return await anyio.to_thread.run_sync(parts.blobs.put, digest, offset, size, data)


def add_machines(app: FastAPI, parts: Parts) -> None:
    @app.post("/v1/machines", tags=["machines"])
    def create(asked: MachineAsked) -> MachineDoc:
        """Create a machine, once by its name; asked again, it says how far it is."""
        return _machines(parts).create(asked)

    @app.get("/v1/machines", tags=["machines"])
    def list_machines(owner: Annotated[str, Query(max_length=128)] = "") -> MachinesDoc:
        """Those of an owner, or all of them."""
        return MachinesDoc(machines=_machines(parts).list_owned(owner))

    @app.get("/v1/machines/{name}", tags=["machines"])
    def look(name: Name) -> MachineDoc:
        return _machines(parts).get(name)

    @app.delete("/v1/machines/{name}", tags=["machines"])
    def delete(name: Name, if_idle_s: Annotated[float, Query(ge=0)] = 0.0) -> MachineDoc:
        """Delete it with all that runs on it; 409 unless it has been idle for so long."""
        return _machines(parts).delete(name, if_idle_s)
