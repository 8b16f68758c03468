"""Gates an adapter in a running server, switches or not, and says what came of it."""

from collections.abc import Callable, Mapping

from controller.cli.opening import actor, remember_heads
from controller.cli.output import CHECK_FAILED, INTERRUPTED, OK, print_json
from controller.cli.text import number, plain
from controller.serving.files import Chosen
from controller.serving.forms import Form
from controller.serving.into import Into, SwapOptions, alone
from controller.serving.server_process import Ended, ended_by_signals
from controller.serving.subjects import Subject, check_name
from controller.serving.swap import Outcome
from controller.wiring import Service
from ledger.errors import InvalidInput, NotFound
from ledger.records import Json

Say = Callable[[str], None]


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
        with alone(service), ended_by_signals():
            outcome = Into(service, options, actor(), say).gate(one)
    except Ended:
        say("ended before it was decided: nothing was switched")
        return INTERRUPTED
    finally:
        remember_heads(service)
    _tell(subject, outcome, options, as_json=as_json)
    return OK if outcome.verdict.passed else CHECK_FAILED


def put_back(service: Service, name: str, options: SwapOptions, say: Say, *, as_json: bool) -> int:
    """Put in again what the record names. Raises NotFound, and what controller.serving raises."""
    check_name(name)
    into = Into(service, options, actor(), say)
    record = into.record
    recorded = record.served(name)
    if recorded is None:
        raise NotFound(f"{name}: the record names nothing that was served under this name")
    try:
        with alone(service), ended_by_signals():
            entry = into.restore(recorded)
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
