"""What a job service keeps, by its own word: nothing here can enforce it."""

import logging
from typing import Final

from ledger.errors import ArlError
from targets.http_job.client import JobClient
from targets.http_job.documents import VERSION, HealthDoc
from targets.promises import Keeper, Promise, Promises, Subject

_SAID: Final = Promise(Keeper.SERVICE, "the service says that it keeps it")
_HELD: Final = Promise(Keeper.SERVICE, "the service says that it is a sandbox")
_OPEN: Final = Promise(Keeper.NO, "the service does not say that it is a sandbox")
_OF_A_SANDBOX: Final = (
    Subject.CPUS,
    Subject.NETWORK,
    Subject.HOST_FILES,
    Subject.READ_ONLY,
    Subject.OTHER_PROCESSES,
    Subject.PRIVATE_SCRATCH,
    Subject.CLOCK,
    Subject.GPUS,
)


log = logging.getLogger("arl.targets.http")


def http_promises(client: JobClient) -> Promises:
    """What the protocol asks of every service, and what this one says of itself. Raises
    TargetUnavailable."""
    health = client.ask("GET", "/v1/health", HealthDoc)
    return promises_of_service(sandbox=health.sandbox, images=health.images, egress=health.egress)


def says_it_is_a_sandbox(client: JobClient) -> bool:
    """Whether it does, in the version of the protocol that is spoken here; no while it cannot
    be asked."""
    try:
        health = client.ask("GET", "/v1/health", HealthDoc)
    except ArlError as error:
        log.warning("target http: whether it is a sandbox is not known: %s", error)
        return False
    return health.protocol == VERSION and health.sandbox


def promises_of_service(*, sandbox: bool, images: bool, egress: bool) -> Promises:
    """Of a service that says this of itself; what the protocol asks of every one it keeps."""
    kept = dict.fromkeys(Subject, _SAID)
    kept.update(dict.fromkeys(_OF_A_SANDBOX, _HELD if sandbox else _OPEN))
    if not images:
        kept[Subject.IMAGES] = Promise(Keeper.NO, "the service says that it runs no images")
    if not egress:
        kept[Subject.EGRESS] = Promise(Keeper.NO, "the service says that it has no egress list")
    return kept
