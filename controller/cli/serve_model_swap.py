"""Gates an adapter in a running server, switches or not, and says what came of it."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from controller.cli.opening import actor, remember_heads
from controller.cli.output import CHECK_FAILED, INTERRUPTED, OK, print_json
from controller.cli.serve_model_start import FOLDER
from controller.cli.text import number, plain
from controller.places import model_policy
from controller.serving.asking import Asking
from controller.serving.endpoint import Endpoint
from controller.serving.files import Chosen, adapter_at, check_alone, files_of
from controller.serving.forms import Form
from controller.serving.frozen_scorer import FrozenScorer
from controller.serving.gate import ServingGate, SplitName, choose_splits
from controller.serving.record import ServingRecord
from controller.serving.server_process import Ended, ended_by_signals
from controller.serving.subjects import Subject, check_name
from controller.serving.swap import Outcome, Swap, Terms
from controller.settings import read_secret
from controller.wiring import Service
from ledger import reads
from ledger.errors import Conflict, InvalidInput, NotFound
from ledger.records import Json
from ledger.service_entries import ServingSet
from targets.outbound import GuardedTransport, Outbound, verifying
from targets.outbound_addresses import check_url

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapOptions:
    """What the command line says."""

    url: str
    shadow: bool
    margin: float
    split: SplitName | None
    parallel: int
    answer_timeout_s: float
    share: Path | None
    secret: str | None


def swap_in(
    service: Service, one: Chosen, options: SwapOptions, say: Say, *, as_json: bool
) -> int:
    """Gate it; keep it or take it out. Raises what controller.serving.swap raises."""
    subject, form = one.subject, one.form
    if form is not Form.ADAPTER and not options.shadow:
        raise InvalidInput(
            f"--into: {subject.name} is {form}, and a running server takes adapters only; start "
            "another server with it (--start), or gate it where it is served with --shadow"
        )
    try:
        with _alone(service), ended_by_signals():
            outcome = _decided(service, one, options, say)
    except Ended:
        say("ended before it was decided: nothing was switched")
        return INTERRUPTED
    finally:
        remember_heads(service)
    _tell(subject, outcome, options, as_json=as_json)
    return OK if outcome.verdict.passed else CHECK_FAILED


def _decided(service: Service, one: Chosen, options: SwapOptions, say: Say) -> Outcome:
    subject, adapter = one.subject, one.files.adapter
    connect = _connect(service, options)
    record = _record(service, options)
    endpoint = connect()
    try:
        _check_well(endpoint)
        gate, terms = _gate(service, subject, record, connect, options, say)
        swap = Swap(endpoint, record, say)
        if one.form is not Form.ADAPTER or adapter is None:
            return swap.gate_served(subject, str(one.form), gate, terms)
        check_alone(subject)
        path = adapter_at(service.store, subject, adapter, options.share, say)
        return swap.gate_adapter(subject, path, gate, terms)
    finally:
        endpoint.close()


def put_back(service: Service, name: str, options: SwapOptions, say: Say, *, as_json: bool) -> int:
    """Put in again what the record names. Raises NotFound, and what controller.serving raises."""
    check_name(name)
    record = _record(service, options)
    recorded = record.served(name)
    if recorded is None:
        raise NotFound(f"{name}: the record names nothing that was served under this name")
    try:
        with _alone(service), ended_by_signals():
            entry = _restored(service, record, recorded, options, say)
    except Ended:
        say(f"ended: ask again, until it is said that {recorded.served_as} is there")
        return INTERRUPTED
    finally:
        remember_heads(service)
    document: dict[str, Json] = {
        "name": name,
        "served_as": recorded.served_as,
        "endpoint": record.endpoint,
        "restored": entry is not None,
        "seq": recorded.seq if entry is None else entry.seq,
    }
    if as_json:
        print_json(document)
    else:
        how = "was there already" if entry is None else "is there again"
        print(f"{plain(name)}: {recorded.served_as} {how}, at {plain(record.endpoint)}")
    return OK


def _restored(
    service: Service,
    record: ServingRecord,
    recorded: ServingSet,
    options: SwapOptions,
    say: Say,
) -> ServingSet | None:
    with service.ledger.read() as session:
        study = reads.get_study(session, recorded.study_id)
    subject = Subject(
        name=recorded.name,
        candidate_id=recorded.candidate_id,
        study=study,
        artifact=recorded.artifact_digest,
    )
    files = files_of(service.store, subject)
    if files.adapter is None:
        raise InvalidInput(f"{subject.name}: artifact {subject.artifact} holds no adapter")
    path = adapter_at(service.store, subject, files.adapter, options.share, say)
    endpoint = _connect(service, options)()
    try:
        _check_well(endpoint)
        return Swap(endpoint, record, say).restore(subject, path, recorded)
    finally:
        endpoint.close()


def _gate(
    service: Service,
    subject: Subject,
    record: ServingRecord,
    connect: Callable[[], Endpoint],
    options: SwapOptions,
    say: Say,
) -> tuple[ServingGate, Terms]:
    """The gate with its questions: what the evaluator cannot do is said before anything loads."""
    spec = subject.spec
    scorer = FrozenScorer(
        service.store,
        service.evaluating_target(spec),
        subject.study,
        spec,
        service.ledger.id,
    )
    scorer.clean_up()
    asking = Asking(parallel=options.parallel, timeout_s=options.answer_timeout_s)
    gate = ServingGate(connect, scorer, service.store, asking, say)
    splits = choose_splits(record.evaluations(subject), options.split, subject.name)
    say(f"asking the frozen evaluator for the items of {' and '.join(splits)}")
    gate.prepare(splits)
    return gate, Terms(splits=splits, margin=options.margin, shadow=options.shadow)


def _connect(service: Service, options: SwapOptions) -> Callable[[], Endpoint]:
    check_url(options.url, field="--into")
    policy = model_policy(service.settings)
    key = None if options.secret is None else read_secret(options.secret)
    secured = verifying()

    def make(url: str) -> Endpoint:
        return Endpoint(url, Outbound(GuardedTransport(policy, ssl_context=secured)), key)

    return partial(make, options.url)


def _record(service: Service, options: SwapOptions) -> ServingRecord:
    url = options.url.rstrip("/").removesuffix("/v1")
    return ServingRecord(service.ledger, url, actor())


def _check_well(endpoint: Endpoint) -> None:
    """A server that answers nothing is told of before anything is hashed or asked."""
    endpoint.models()


@contextmanager
def _alone(service: Service) -> Iterator[None]:
    """One gate or switch at a time below one ARL_HOME. Raises Conflict."""
    folder = service.settings.home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Conflict(
            "another `arl serve-model --into` is at work below this ARL_HOME: wait for it"
        ) from None
    finally:
        os.close(descriptor)


def _tell(subject: Subject, outcome: Outcome, options: SwapOptions, *, as_json: bool) -> None:
    verdict = outcome.verdict
    if as_json:
        print_json(_document(subject, outcome, options))
        return
    metric = subject.spec.objective.metric
    print(f"{plain(metric)} {number(verdict.value)} of {verdict.items} items")
    for comparison in verdict.comparisons:
        print(
            f"against {comparison.against}: {comparison.difference:+.4f}, at least "
            f"{comparison.low95:+.4f} (gained {comparison.gained}, lost {comparison.lost}): "
            f"{'holds' if comparison.holds else 'does not hold'} with margin {options.margin:g}"
        )
    for side, found in verdict.measured.items():
        print(f"{side}: {_speed(found)}")
    print(plain(_decision(subject, outcome)))


def _speed(found: Mapping[str, float]) -> str:
    return (
        f"p50 {found['latency_p50_s'] * 1000:.0f} ms, p95 {found['latency_p95_s'] * 1000:.0f} ms, "
        f"{found['tokens_per_s']:.0f} tokens/s"
    )


def _decision(subject: Subject, outcome: Outcome) -> str:
    if outcome.kept is not None:
        return f"kept: {subject.name} serves {subject.own_name} now (number {outcome.kept.seq})"
    if outcome.verdict.passed:
        return f"passed: {subject.own_name} was only looked at; nothing was switched"
    stays = outcome.incumbent.served_as if outcome.incumbent is not None else "what it served"
    return f"refused: {outcome.verdict.reason}; {subject.name} serves {stays} still"


def _document(subject: Subject, outcome: Outcome, options: SwapOptions) -> dict[str, Json]:
    verdict = outcome.verdict
    before = outcome.incumbent
    return {
        "name": subject.name,
        "served_as": subject.own_name,
        "endpoint": options.url,
        "candidate": subject.candidate_id,
        "artifact": subject.artifact,
        "passed": verdict.passed,
        "shadow": options.shadow,
        "kept": outcome.kept is not None,
        "seq": None if outcome.kept is None else outcome.kept.seq,
        "judged": outcome.judged,
        "incumbent": None if before is None else before.served_as,
        "reason": verdict.reason,
        "value": verdict.value,
        "scores": dict(verdict.scores),
        "items": verdict.items,
        "margin": options.margin,
        "comparisons": [comparison.document() for comparison in verdict.comparisons],
        "measured": {side: dict(found) for side, found in verdict.measured.items()},
        "answers": verdict.answers_digest,
    }
