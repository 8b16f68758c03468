"""One running server and one name in it: gates, switches, puts back; for whoever asks for it."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.places import model_policy
from controller.serving.asking import Asking
from controller.serving.endpoint import Endpoint
from controller.serving.files import Chosen, adapter_at, check_alone, files_of
from controller.serving.forms import Form
from controller.serving.frozen_scorer import FrozenScorer
from controller.serving.gate import ServingGate, SplitName, choose_splits
from controller.serving.record import ServingRecord
from controller.serving.subjects import Subject
from controller.serving.swap import Outcome, Swap, Terms
from controller.settings import read_secret
from controller.wiring import Service
from ledger import reads
from ledger.errors import Conflict, InvalidInput
from ledger.service_entries import ServingSet
from targets.outbound import GuardedTransport, Outbound, verifying
from targets.outbound_addresses import check_url

Say = Callable[[str], None]

FOLDER: Final = "serving"
"""Below ARL_HOME: logs of started servers, and the lock of what gates and switches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapOptions:
    """How a server is asked, and by what it is held."""

    url: str
    shadow: bool = False
    margin: float
    split: SplitName | None
    parallel: int
    answer_timeout_s: float
    share: Path | None
    secret: str | None


class Into:
    """A running server, as one actor sees it."""

    def __init__(
        self,
        service: Service,
        options: SwapOptions,
        actor: str,
        say: Say,
        *,
        field: str = "--into",
    ) -> None:
        """`field`: where its address was written.

        Raises InvalidInput, AddressRefused: it may not be asked."""
        self._service, self._options, self._say = service, options, say
        url = options.url.rstrip("/").removesuffix("/v1")
        self.record = ServingRecord(service.ledger, url, actor)
        check_url(options.url, field=field)
        self._policy = model_policy(service.settings)
        self._key = None if options.secret is None else read_secret(options.secret)
        self._secured = verifying()

    def connect(self) -> Endpoint:
        """A connection of its own."""
        transport = GuardedTransport(self._policy, ssl_context=self._secured)
        return Endpoint(self._options.url, Outbound(transport), self._key)

    @property
    def asking(self) -> Asking:
        options = self._options
        return Asking(parallel=options.parallel, timeout_s=options.answer_timeout_s)

    def gate(self, one: Chosen) -> Outcome:
        """Gate it; keep it or take it out. Raises what controller.serving.swap raises."""
        subject, adapter = one.subject, one.files.adapter
        with self._connected() as endpoint:
            gate, terms = self._prepared(subject)
            swap = Swap(endpoint, self.record, self._say)
            if one.form is not Form.ADAPTER or adapter is None:
                return swap.gate_served(subject, str(one.form), gate, terms)
            check_alone(subject)
            return swap.gate_adapter(subject, self.path_of(subject), gate, terms)

    def restore(self, recorded: ServingSet) -> ServingSet | None:
        """Put in again what the record names; None where it is there. Raises as `gate`."""
        subject = self._recorded_subject(recorded)
        path = self.path_of(subject)
        with self._connected() as endpoint:
            return Swap(endpoint, self.record, self._say).restore(subject, path, recorded)

    def is_served(self, recorded: ServingSet) -> bool:
        """Whether the server has what the record names, there and under both names; quick, since
        no file is read. What a killed switch left beside it is taken out."""
        with self._connected() as endpoint:
            listed = endpoint.models()
            found = [listed.get(name) for name in (recorded.name, recorded.served_as)]
            roots = {one.root for one in found if one and recorded.artifact_digest in one.root}
            has_it = all(one is not None and one.root in roots for one in found)
            if has_it and recorded.endpoint == self.record.endpoint:
                Swap(endpoint, self.record, self._say).take_out_others(recorded.name, roots)
                return True
        return False

    def put_back(self, subject: Subject, note: str) -> ServingSet:
        """Serve an earlier one in the place of what is served, without a gate: it had the name
        before. Raises as `gate`."""
        path = self.path_of(subject)
        with self._connected() as endpoint:
            return Swap(endpoint, self.record, self._say).put_back(subject, path, note)

    def path_of(self, subject: Subject) -> Path:
        """Its adapter as the server reads it, every byte checked. Raises InvalidInput,
        ArtifactCorrupt, NotFound, DiskFull."""
        store = self._service.store
        adapter = files_of(store, subject).adapter
        if adapter is None:
            raise InvalidInput(
                f"{subject.name}: artifact {subject.artifact} holds no adapter, and a running "
                "server takes adapters only; train with keep_adapter: true"
            )
        return adapter_at(store, subject, adapter, self._options.share, self._say)

    @contextmanager
    def _connected(self) -> Iterator[Endpoint]:
        """A server that answers nothing is told of before anything is hashed or asked."""
        endpoint = self.connect()
        try:
            endpoint.models()
            yield endpoint
        finally:
            endpoint.close()

    def _recorded_subject(self, recorded: ServingSet) -> Subject:
        with self._service.ledger.read() as session:
            study = reads.get_study(session, recorded.study_id)
        return Subject(
            name=recorded.name,
            candidate_id=recorded.candidate_id,
            study=study,
            artifact=recorded.artifact_digest,
        )

    def _prepared(self, subject: Subject) -> tuple[ServingGate, Terms]:
        """With its questions: what the evaluator cannot do is said before anything loads."""
        service, options = self._service, self._options
        spec = subject.spec
        target = service.evaluating_target(spec)
        bundle = subject.study.bundle_digest
        scorer = FrozenScorer(service.store, target, bundle, spec, service.ledger.id)
        scorer.clean_up()
        gate = ServingGate(self.connect, scorer, service.store, self.asking, self._say)
        splits = choose_splits(self.record.evaluations(subject), options.split, subject.name)
        self._say(f"asking the frozen evaluator for the items of {' and '.join(splits)}")
        gate.prepare(splits)
        return gate, Terms(splits=splits, margin=options.margin, shadow=options.shadow)


@contextmanager
def alone(service: Service) -> Iterator[None]:
    """One gate or switch at a time below one ARL_HOME. Raises Conflict."""
    with locked(
        service.settings.home / FOLDER / "lock",
        "another `arl serve-model --into` is at work below this ARL_HOME: wait for it",
    ):
        yield


@contextmanager
def locked(path: Path, otherwise: str) -> Iterator[None]:
    """Hold a lock file until the end of this, or of the process. Raises Conflict."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(otherwise) from None
    try:
        yield
    finally:
        os.close(descriptor)
