"""Attempts on a remote service that speaks ARL's job protocol: see docs/job-protocol.md."""

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from inner_trials.contract import SCORE_BYTES
from ledger.errors import ArlError, InvalidInput, NotFound, TargetUnavailable
from ledger.records import Json
from targets import layout, wire
from targets.attempt_files import Store
from targets.http_job import signing as http_signing
from targets.http_job.client import JobClient, Patience
from targets.http_job.documents import (
    AttemptState,
    FingerprintDoc,
    ObservationDoc,
    ProgramAsked,
    ProgramDoc,
)
from targets.http_job.inputs import Uploads
from targets.http_job.launch import Launches
from targets.http_job.machines import Machines, OnePlace, Places, Service, study_of
from targets.http_job.news import Bell, HttpNews
from targets.http_job.outputs import HttpOutputs, OutputStore, first_page
from targets.http_job.promises import http_promises, says_it_is_a_sandbox
from targets.http_job.reading import list_attempts, read_log
from targets.http_job.watched import WatchedAttempts
from targets.outbound import AddressPolicy, GuardedTransport, Outbound
from targets.outbound_addresses import check_url
from targets.promises import Promises
from targets.protocol import (
    AttemptSpec,
    Exit,
    ExitCause,
    Found,
    LogChunk,
    Observation,
    OutputReader,
    Program,
)

log = logging.getLogger("arl.targets.http")

T = TypeVar("T")

SWEEP_S: Final = 60.0
PROGRAM_S: Final = 40.0
"""What the service may need to run a program's interpreter, or to pull its image."""
_NEVER_ENDED: Final = "its service kept it running long past its deadline"


class HttpTarget:
    """See targets.protocol.Target. A handle is the attempt's name.

    Everything about an attempt is on the service: a worker on any host that has the secret finds
    it by name. Only fetched outputs are kept here, until their release.
    """

    name = "http"
    is_shared = True

    def __init__(
        self,
        root: Path,
        store: Store,
        *,
        url: str,
        secret: str,
        machine: Mapping[str, Json] | None = None,
        policy: AddressPolicy | None = None,
        trusts_sandbox: bool = False,
        patience: Patience | None = None,
    ) -> None:
        """`machine`: what to create for each study, in the service's words; None: the service
        itself runs the attempts. `trusts_sandbox` believes what the service says about its
        sandbox. Raises InvalidInput."""
        check_url(url, field="target.url")
        self._store = store
        self._policy = policy or AddressPolicy()
        self._patience = patience
        self._bell = Bell()
        self._watched = WatchedAttempts((patience or Patience()).late_s)
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="arl-http")
        self._swept_at = time.monotonic()
        key = http_signing.key_of(secret)
        self._hub = self._connect(url, key)
        self._machines = (
            None if machine is None else Machines(self._hub, self._connect, key, machine)
        )
        self._places: Places = self._machines or OnePlace(self._hub)
        self._launches = Launches(self._places, self._pool, self._hub.client.service_time)
        self._outputs = OutputStore(os.path.abspath(root))
        self.is_sandbox = trusts_sandbox and says_it_is_a_sandbox(self._hub.client)

    # --- running attempts --------------------------------------------------------------------

    def launch(self, spec: AttemptSpec) -> str:
        """As in the contract. Raises StaleFence once `launch_by` is over, and TargetUnavailable
        while the machine is created or inputs are sent: that goes on, so launch it again."""
        self._launches.launch(spec)
        self._watched.launched(spec)
        return spec.name

    def wait(self, handles: Collection[str], timeout_s: float) -> set[str]:
        self._sweep_when_due()
        return self._bell.wait(lambda: self._take(handles), timeout_s)

    def interrupt(self) -> None:
        self._bell.interrupt()

    def observe(self, handle: str, *, cursor: str) -> Observation:
        """As in the contract. One that its service keeps running long past its deadline, or
        whose machine is gone, is lost."""
        _check(handle)

        def ask(service: Service) -> Observation:
            path = f"/v1/attempts/{handle}"
            doc = service.client.ask("GET", path, ObservationDoc, query={"cursor": cursor})
            self._watched.saw(handle, doc)
            if doc.exit is not None and not doc.more:
                service.news.ended(handle)
            return wire.observation_of(doc)

        seen = None
        if not self._watched.is_lost(handle):
            seen = self._on_its_service(handle, ask)
            if seen is None:
                return _lost(cursor, "its service does not know it, or is gone")
        if self._watched.is_lost(handle):
            log.warning("attempt %s is given up: %s", handle, _NEVER_ENDED)
            return _lost(cursor, _NEVER_ENDED)
        return seen or _lost(cursor, _NEVER_ENDED)

    def request_stop(self, handle: str) -> None:
        self._ask_about(handle, "POST", "/stop")

    def kill(self, handle: str) -> None:
        self._ask_about(handle, "POST", "/kill")

    def release(self, handle: str) -> None:
        self._ask_about(handle, "DELETE", "")
        self._outputs.discard(handle)
        self._watched.forget(handle)
        for service in self._places.open_ones():
            service.news.forget(handle)

    def list_owned(self, owner: str) -> Sequence[Found]:
        services = self._places.of_owner(owner)
        self._sweep_when_due(now=True)
        return [found for service in services for found in list_attempts(service.client, owner)]

    # --- what they leave ---------------------------------------------------------------------

    def outputs(self, handle: str) -> OutputReader:
        """The reader's `root` is fetched when it is first asked for, which may take as long as
        the network does. Raises Conflict while the attempt runs, NotFound when it is gone."""
        _check(handle)
        if os.path.isdir(self._outputs.whole(handle)):
            return _Here(self._outputs.whole(handle))

        def ask(service: Service) -> OutputReader:
            first_page(service.client, handle)
            limit = self._watched.output_bytes(handle)
            return HttpOutputs(self._outputs, handle, service.client, limit)

        found = self._on_its_service(handle, ask)
        if found is None:
            raise NotFound(f"what attempt {handle} left is gone with it, or with its machine")
        return found

    def score(self, handle: str) -> bytes:
        _check(handle)
        path = f"/v1/attempts/{handle}/score"
        fetched = self._on_its_service(
            handle, lambda service: service.client.fetch(path, {}, limit=SCORE_BYTES + 1).body
        )
        return fetched or b""

    def read_log(self, handle: str, *, offset: int, limit: int) -> LogChunk:
        _check(handle)
        found = self._on_its_service(
            handle, lambda service: read_log(service.client, handle, offset, limit)
        )
        return found or LogChunk(b"", 0, 0)

    # --- programs ----------------------------------------------------------------------------

    def check_options(self, options: Mapping[str, Json]) -> None:
        """The service's own target judges them."""

    def pin(self, program: Program) -> Program:
        asked = self._asked(program)
        return wire.program_of(
            self._hub.client.ask("POST", "/v1/pin", ProgramDoc, content=asked, wait_s=PROGRAM_S)
        )

    def fingerprint(self, program: Program) -> str:
        asked = self._asked(program)
        found = self._hub.client.ask(
            "POST", "/v1/fingerprint", FingerprintDoc, content=asked, wait_s=PROGRAM_S
        )
        return layout.one_line(found.fingerprint)

    def promises(self) -> Promises:
        """What the service says of itself, and so of the machines that it makes."""
        return http_promises(self._hub.client)

    def close(self) -> None:
        if self._machines is not None:
            self._machines.close()
        self._hub.news.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    # --- parts -------------------------------------------------------------------------------

    def _connect(self, url: str, key: bytes) -> Service:
        client = JobClient(url, key, Outbound(GuardedTransport(self._policy)), self._patience)
        return Service(client, HttpNews(client, self._bell.ring), Uploads(client, self._store))

    def _take(self, handles: Collection[str]) -> set[str]:
        """Those with news. One whose machine is gone, or that never ends, is news for ever."""
        by_service: dict[int, tuple[Service, list[str]]] = {}
        found = self._watched.due(handles)
        for handle in handles:
            service = self._places.find(study_of(handle))
            if service is None:
                found.add(handle)
            else:
                by_service.setdefault(id(service), (service, []))[1].append(handle)
        for service, names in by_service.values():
            found |= service.news.take(names)
        return found

    def _ask_about(self, handle: str, method: str, what: str) -> None:
        _check(handle)
        path = f"/v1/attempts/{handle}{what}"
        self._on_its_service(
            handle, lambda service: service.client.ask(method, path, AttemptState)
        )

    def _on_its_service(self, handle: str, ask: Callable[[Service], T]) -> T | None:
        """What `ask` gave; None when neither a service nor a machine knows the attempt."""
        study = study_of(handle)
        service = self._places.find(study)
        if service is None:
            return None
        try:
            return ask(service)
        except NotFound:
            return None
        except TargetUnavailable:
            self._places.confirm(study)
            if self._places.find(study) is service:
                raise
            return None  # its machine is gone, and it with it

    def _asked(self, program: Program) -> ProgramAsked:
        machine = None if self._machines is None else self._machines.wanted
        try:
            return ProgramAsked(program=wire.program_doc(program), machine=machine)
        except ValueError as error:  # pydantic's are
            raise InvalidInput(f"program cannot be sent: {error}") from error

    def _sweep_when_due(self, *, now: bool = False) -> None:
        """Leaked machines are looked for beside whatever goes on."""
        due = now or time.monotonic() - self._swept_at >= SWEEP_S
        if self._machines is not None and due:
            self._swept_at = time.monotonic()
            self._pool.submit(_sweep, self._machines)


@dataclass(frozen=True, slots=True)
class _Here:
    """Outputs that were fetched before."""

    root: str


def _sweep(machines: Machines) -> None:
    try:
        machines.sweep()
    except ArlError as error:
        log.warning("leaked machines are looked for later: %s", error)


def _check(handle: str) -> None:
    if not layout.is_name(handle):
        raise InvalidInput(f"attempt handle {handle!r}: must be {layout.NAME_RULE}")


def _lost(cursor: str, why: str) -> Observation:
    lost = Exit(cause=ExitCause.LOST, code=None, detail=why)
    return Observation(values=(), cursor=cursor, exit=lost)
