"""Which service runs a study's attempts: the one a study names, or a machine that it created.

A machine is made for one study of one ledger, under a name that follows from both, and deleted
once it has been idle for a while: by ARL, which looks at its start and now and then, and by the
service itself should ARL never come back.
"""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from pydantic import JsonValue

from ledger.errors import Conflict, NotFound, TargetUnavailable
from ledger.records import Json
from targets.http_job import signing as http_signing
from targets.http_job.client import JobClient
from targets.http_job.documents import MachineAsked, MachineDoc, MachinesDoc
from targets.http_job.inputs import Uploads
from targets.http_job.news import HttpNews

log = logging.getLogger("arl.targets.http")

CREATE_S: Final = 1800.0
"""How long a machine may take to be ready."""
IDLE_S: Final = 900.0
LEASE_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Service:
    """One endpoint that speaks the job protocol."""

    client: JobClient
    news: HttpNews
    uploads: Uploads


Connect = Callable[[str, bytes], Service]
"""By url and key."""


class Places(Protocol):
    """Where the attempts of each study are."""

    def obtain(self, owner: str, study: str, tell: Callable[[str], None]) -> Service:
        """The service for a study's attempts, made if need be: may take minutes. Raises
        TargetUnavailable, InvalidInput."""
        ...

    def find(self, study: str) -> Service | None:
        """The same, if there is one now. Raises TargetUnavailable."""
        ...

    def confirm(self, study: str) -> None:
        """After a service did not answer: forget it if it is gone, so that `find` says so.
        Raises TargetUnavailable."""
        ...

    def of_owner(self, owner: str) -> Sequence[Service]:
        """Every service that may have attempts of `owner`. Raises TargetUnavailable."""
        ...

    def open_ones(self) -> Sequence[Service]:
        """Those in use by this process."""
        ...

    def sweep(self) -> None:
        """Remove what nobody uses. Raises TargetUnavailable."""
        ...


class OnePlace:
    """The service itself runs every study's attempts."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def obtain(self, owner: str, study: str, tell: Callable[[str], None]) -> Service:
        return self._service

    def find(self, study: str) -> Service | None:
        return self._service

    def confirm(self, study: str) -> None:
        return None

    def of_owner(self, owner: str) -> Sequence[Service]:
        return [self._service]

    def open_ones(self) -> Sequence[Service]:
        return [self._service]

    def sweep(self) -> None:
        return None


class Machines:
    """A machine per study, created by the service. Thread-safe."""

    def __init__(
        self, hub: Service, connect: Connect, key: bytes, machine: Mapping[str, Json]
    ) -> None:
        self._hub = hub.client
        self._connect = connect
        self._key = key
        given = dict(machine)
        self._idle_s = _seconds(given.pop("idle_s", IDLE_S), IDLE_S)
        self._lease_s = _seconds(given.pop("lease_s", LEASE_S), LEASE_S)
        self.wanted: dict[str, JsonValue] = json.loads(json.dumps(given))
        self._lock = threading.Lock()
        self._owner: str | None = None
        self._open: dict[str, tuple[str, Service]] = {}
        """By study: the machine's url, and the service there."""
        self._closed = threading.Event()

    def obtain(self, owner: str, study: str, tell: Callable[[str], None]) -> Service:
        self._owner = owner
        asked = MachineAsked(
            name=machine_name(owner, study),
            owner=owner,
            study=study,
            machine=self.wanted,
            idle_s=self._idle_s,
            lease_s=self._lease_s,
        )
        until = time.monotonic() + CREATE_S
        pause_s, failed_before = 0.05, False
        while time.monotonic() < until and not self._closed.is_set():
            tell("its machine is being created")
            found = self._hub.ask("POST", "/v1/machines", MachineDoc, content=asked)
            if found.state == "ready":
                return self._opened(found)
            if found.state == "failed":  # to be made, or since: another one is tried, once
                self._remove(found)
                if failed_before:
                    raise TargetUnavailable(
                        f"the machine of study {study} could not be made: {found.detail}"
                    )
                failed_before = True
            self._closed.wait(pause_s)
            pause_s = min(pause_s * 1.5, 5.0)
        raise TargetUnavailable(f"the machine of study {study} is not ready after {CREATE_S:g} s")

    def find(self, study: str) -> Service | None:
        with self._lock:
            known = self._open.get(study)
        if known is not None:
            return known[1]
        for machine in self._list():
            if machine.study == study and machine.state == "ready":
                return self._opened(machine)
        return None

    def confirm(self, study: str) -> None:
        with self._lock:
            known = self._open.get(study)
        if known is None:
            return
        there = [m.url for m in self._list() if m.study == study and m.state == "ready"]
        if known[0] not in there:
            self._close(study)

    def of_owner(self, owner: str) -> Sequence[Service]:
        self._owner = owner
        return [self._opened(machine) for machine in self._list() if machine.state == "ready"]

    def open_ones(self) -> Sequence[Service]:
        with self._lock:
            return [service for _, service in self._open.values()]

    def sweep(self) -> None:
        """Delete this ledger's machines that have been idle too long, or never came up. The
        service judges again when it deletes: another worker may use one just now."""
        if self._owner is None:
            return
        for machine in self._list():
            if machine.state == "failed" or (
                machine.state == "ready" and machine.idle_s >= self._idle_s
            ):
                log.info("machine %s of study %s is removed", machine.name, machine.study)
                self._remove(machine)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            services, self._open = list(self._open.values()), {}
        for _, service in services:
            service.news.close()

    def _list(self) -> list[MachineDoc]:
        query = {"owner": self._owner or ""}
        found = self._hub.ask("GET", "/v1/machines", MachinesDoc, query=query).machines
        return [m for m in found if self._owner is None or m.owner == self._owner]

    def _remove(self, machine: MachineDoc) -> None:
        try:
            self._hub.ask(
                "DELETE",
                f"/v1/machines/{machine.name}",
                MachineDoc,
                query={"if_idle_s": 0 if machine.state == "failed" else self._idle_s},
            )
        except (Conflict, NotFound):
            return  # used again meanwhile, or gone
        self._close(machine.study)

    def _opened(self, machine: MachineDoc) -> Service:
        url = machine.url or ""
        if urlsplit(url).scheme not in ("http", "https"):
            raise self._hub.broken(f"machine {machine.name} has the url {url!r}")
        with self._lock:
            known = self._open.get(machine.study)
            if known is not None and known[0] == url:
                return known[1]
        self._close(machine.study)
        service = self._connect(url, http_signing.machine_key(self._key, machine.name))
        with self._lock:
            kept = self._open.setdefault(machine.study, (url, service))
        if kept[1] is not service:
            service.news.close()
        return kept[1]

    def _close(self, study: str) -> None:
        with self._lock:
            known = self._open.pop(study, None)
        if known is not None:
            known[1].news.close()


def study_of(attempt: str) -> str:
    """The study id inside an attempt's name, `arl-<study>-<trial>…` or `arl-<study>.…`."""
    return attempt.removeprefix("arl-").partition(".")[0].partition("-")[0] or attempt


def machine_name(owner: str, study: str) -> str:
    digest = hashlib.sha256(json.dumps([owner, study]).encode()).hexdigest()
    return f"arl-{digest[:24]}"


def _seconds(value: Json, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and isinstance(value, int | float) else default
