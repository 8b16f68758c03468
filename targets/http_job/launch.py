"""Starts attempts on a job service, once their machine and their inputs are there.

Creating machines and sending inputs may take minutes, and a worker must not be held up: both go
on beside it, and a launch that finds them under way says so and is asked again later.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from pydantic import ValidationError

from ledger.errors import InvalidInput, StaleFence, TargetUnavailable
from targets import wire
from targets.http_job.client import InputsMissing
from targets.http_job.documents import AttemptState
from targets.http_job.machines import Places, Service, study_of
from targets.protocol import AttemptSpec
from targets.workspace import check_names

LAUNCH_S: Final = 10.0
"""How long a launch waits for its machine and inputs before the study waits instead."""


@dataclass(slots=True)
class _Preparation:
    """A machine and inputs on their way, for one or more launches."""

    done: Future[Service]
    doing: list[str] = field(default_factory=list)
    """What it did so far, for a person."""


class Launches:
    """Thread-safe."""

    def __init__(
        self, places: Places, pool: ThreadPoolExecutor, service_time: Callable[[], float]
    ) -> None:
        """`service_time` is the service's wall clock."""
        self._places = places
        self._pool = pool
        self._service_time = service_time
        self._lock = Lock()
        self._preparing: dict[tuple[str, ...], _Preparation] = {}

    def launch(self, spec: AttemptSpec) -> None:
        """As targets.protocol.Target.launch."""
        check_names(spec)
        try:
            doc = wire.attempt_doc(spec)
        except ValueError as error:  # pydantic's is one
            raise InvalidInput(f"attempt {spec.name} cannot be sent: {_first(error)}") from error
        for tries_left in (1, 0):
            service = self._prepared(spec)
            service.news.expect(spec.name)
            try:
                service.client.ask(
                    "PUT",
                    f"/v1/attempts/{spec.name}",
                    AttemptState,
                    query={"by": self._by(spec)},
                    content=doc,
                )
                return
            except InputsMissing as error:
                service.uploads.forget()
                if not tries_left:
                    raise TargetUnavailable(
                        f"the job service {service.client.url} keeps losing files: {error}"
                    ) from error

    def _by(self, spec: AttemptSpec) -> float | str:
        """`launch_by`, which this machine's monotonic clock counts, by the service's clock."""
        if spec.launch_by is None:
            return ""
        return round(self._service_time() + spec.launch_by - time.monotonic(), 3)

    def _prepared(self, spec: AttemptSpec) -> Service:
        """The service that is to run it, which has its inputs."""
        key, preparing = self._begin(spec)
        patience_s = LAUNCH_S
        if spec.launch_by is not None:
            patience_s = min(patience_s, spec.launch_by - time.monotonic())
            if patience_s <= 0:
                raise StaleFence(f"{spec.name} is not launched: the lease of its asker is over")
        try:
            return preparing.done.result(patience_s)
        except TimeoutError:
            doing = preparing.doing[-1] if preparing.doing else "waiting for its turn"
            raise TargetUnavailable(f"attempt {spec.name} cannot start yet: {doing}") from None
        finally:
            if preparing.done.done():
                with self._lock:
                    self._preparing.pop(key, None)

    def _begin(self, spec: AttemptSpec) -> tuple[tuple[str, ...], _Preparation]:
        trees = tuple(sorted({*spec.inputs.values(), *spec.answerer_inputs.values()}))
        study = study_of(spec.name)
        key = (study, *trees)
        with self._lock:
            known = self._preparing.get(key)
            if known is not None:
                return key, known
            doing: list[str] = []

            def prepare() -> Service:
                service = self._places.obtain(spec.owner, study, doing.append)
                service.uploads.send(trees, doing.append)
                return service

            self._preparing[key] = _Preparation(self._pool.submit(prepare), doing)
            return key, self._preparing[key]


def _first(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"
