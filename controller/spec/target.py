"""The sections of a study file that say where attempts run and what they may use there."""

from typing import Annotated, Final, Literal

from pydantic import Field

from controller.spec.quantities import ByteCount, Seconds
from controller.spec.strict import SAFE_INTEGER, Strict

MIB: Final = 1024**2
GIB: Final = 1024**3

NonEmpty = Annotated[str, Field(min_length=1, max_length=4096)]


class TargetSpec(Strict):
    """Where attempts run."""

    name: Literal["auto", "docker", "bubblewrap", "local", "http", "ray", "outside"] = "auto"
    """auto: docker where an engine answers, else bubblewrap where it works, else local, which is
    said; local: plain processes of this machine, no sandbox; docker: a container each;
    bubblewrap: a sandbox without a daemon; http: a service that speaks ARL's job protocol; ray:
    a Ray cluster; outside: nowhere, workers of your own ask for trials over the API and tell."""
    image: NonEmpty | None = None
    """docker, ray: what attempts run in, frozen by digest at submit; default: this machine's own
    system and interpreter, read-only."""
    runtime: NonEmpty | None = None
    """docker: a runtime the engine knows, like runsc; default: the engine's own."""
    egress: tuple[NonEmpty, ...] = ()
    """Hosts that preparing and training may reach, like example.org, example.org:8443 or
    *.example.org, through a proxy that records every request; default: none."""
    url: NonEmpty | None = None
    """http: where the service is."""
    secret: NonEmpty | None = None
    """http: ARL's environment variable, ARL_SECRET_…, that holds the secret of both sides."""
    machine: dict[str, object] | None = None
    """http: what machine to create for each study and delete with it; default: the service
    itself runs the attempts."""
    address: NonEmpty | None = None
    """ray: of the cluster, like ray://host:10001 or auto."""
    storage: NonEmpty | None = None
    """ray: what every node reaches, like file:///mnt/shared/arl or s3://bucket/arl."""
    sandbox: Literal["docker", "bubblewrap", "local"] | None = None
    """ray: what runs an attempt on its node; default: docker, else bubblewrap, where the node has
    it; local must be asked for."""
    resources: dict[NonEmpty, float] = Field(default_factory=dict)
    """ray: custom resources of the cluster that a trial takes, beside resources.cpus and gpus."""


class ResourcesSpec(Strict):
    """What one attempt may use; enforced where it runs."""

    cpus: float = Field(default=1.0, gt=0)
    gpus: int = Field(default=0, ge=0, le=SAFE_INTEGER)
    memory_bytes: ByteCount | None = Field(
        default=None, validation_alias="memory", serialization_alias="memory"
    )
    """Like 4GiB; default: not limited."""
    wall_time_s: Seconds = Field(
        default=1800.0, validation_alias="wall_time", serialization_alias="wall_time"
    )
    """Like 30m: an attempt that runs longer is ended."""
    stall_time_s: Seconds | None = Field(
        default=None, validation_alias="stall_time", serialization_alias="stall_time"
    )
    """Like 5m: an attempt that neither reports nor logs for so long is ended; default: never."""
    log_bytes: ByteCount = Field(
        default=16 * MIB, validation_alias="logs", serialization_alias="logs"
    )
    """Like 16MiB: the head and the tail of a longer log are kept."""
    output_bytes: ByteCount = Field(
        default=64 * GIB, validation_alias="output", serialization_alias="output"
    )
    """Like 64GiB: what an attempt may leave behind; it is ended when it writes more."""
    scratch_bytes: ByteCount = Field(
        default=64 * GIB, validation_alias="scratch", serialization_alias="scratch"
    )
    """Like 64GiB: what an attempt may write to its working directory, HOME and /tmp together."""
