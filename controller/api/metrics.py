"""What Prometheus reads: the requests this process answered, and the ledger as it is."""

import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller.wiring import Service
from ledger.endings import Ended, EndingCounts
from ledger.entries import CandidatePromoted, ProposerWaits, WorkerClaimed
from ledger.gauges import Budget, read_gauges
from ledger.schema import REVISIONS

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
UNMATCHED: Final = "unmatched"
"""The route of a request that none matches: addresses of strangers are no labels."""
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
OTHER: Final = "other"
"""Any other method: words of strangers are no labels, either."""


class Metrics:
    """Of one application. Thread-safe."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter(
            "arl_http_requests", "Requests answered.", labels, registry=self._registry
        )
        self._seconds = Histogram(
            "arl_http_request_seconds",
            "Time to answer, event streams not counted.",
            ("method", "route"),
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._registry.register(_LedgerCollector(service))
        ProcessCollector(registry=self._registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note one request; `route` is a template, never an address."""
        method = method if method in METHODS else OTHER
        self._requests.labels(method, route, str(status)).inc()
        if not route.endswith("/events"):
            self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' text format. Raises LedgerUnavailable."""
        return generate_latest(self._registry)


class _LedgerCollector(Collector):
    """Reads the ledger when it is asked, and never before."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._endings = EndingCounts()

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        began = time.monotonic()
        with self._service.ledger.read() as session:
            found = read_gauges(session, self._service.settings.lease_s)
            ended = self._endings.look(session)
        yield _labelled("arl_studies", "Studies by state.", "state", found.studies)
        yield _labelled("arl_trials", "Unfinished trials by state.", "state", found.trials)
        yield _labelled("arl_attempts", "Unfinished attempts by target.", "target", found.attempts)
        yield _plain("arl_leases", "Studies that a worker drives.", found.leases)
        told = "Workers, and whether they drive a study or have nothing to do."
        yield _gauges("arl_workers", told, ("host", "state"), found.driven.workers)
        left_s = found.driven.lease_left_s
        if left_s is not None:
            yield _plain("arl_lease_remaining_seconds", "Of the lease that ends soonest.", left_s)
        told = "Studies with something to do that no live worker drives."
        yield _plain("arl_studies_unclaimed", told, found.driven.unclaimed)
        labels = ("reason", "by")
        yield _gauges("arl_studies_paused", "Paused studies.", labels, found.paused)
        yield _plain("arl_commands_pending", "Requests no worker answered yet.", found.pending)
        told = "How long the oldest of them waits."
        yield _plain("arl_command_oldest_seconds", told, found.pending_s)
        told = "Notifications that webhooks did not take, by state."
        yield _labelled("arl_notifications", told, "state", found.notifications)
        yield _plain("arl_promotions_awaiting", "Promotions that await approval.", found.awaiting)
        for disk, name in zip(self._service.settings.disks(), ("arl", "arl_ledger"), strict=False):
            holds = f"on the disk with {disk.holds}."
            yield _plain(f"{name}_disk_free_bytes", f"Free {holds}", disk.free_bytes)
            yield _plain(f"{name}_disk_size_bytes", f"All {holds}", disk.total_bytes)
            wanted = f"Below that studies pause: {holds}"
            yield _plain(f"{name}_disk_min_free_bytes", wanted, disk.min_free_bytes)
        yield _plain("arl_ledger_size_bytes", "Of the ledger's database.", found.size_bytes)
        yield from _budgets(found.budgets)
        yield from _counters(ended)
        about = ("version", "ledger_revision")
        is_it: dict[tuple[str, ...], float] = {(version("arl"), REVISIONS[-1]): 1.0}
        yield _gauges("arl_build_info", "Which ARL answers.", about, is_it)
        yield _plain("arl_ledger_read_seconds", "Time these took.", time.monotonic() - began)


def _budgets(budgets: Sequence[Budget]) -> Iterator[Metric]:
    labels = ("study", "resource")
    for name, text, field in (
        ("arl_budget_limit", "Budgets of studies that have not ended: the limit.", "limit"),
        ("arl_budget_spent", "What is spent of it.", "spent"),
        ("arl_budget_reserved", "What is reserved of it for what runs.", "reserved"),
    ):
        values: dict[tuple[str, ...], float] = {
            (one.study_id, one.resource): float(getattr(one, field)) for one in budgets
        }
        yield _gauges(name, text, labels, values)


def _counters(ended: Ended) -> Iterator[Metric]:
    """Since this process was first asked."""
    trials = ("kind", "state", "reason", "fault")
    yield _counted("arl_trials_ended", "Trials that ended.", trials, ended.trials)
    told = "Attempts that ended without a usable outcome."
    yield _counted("arl_attempts_failed", told, ("state", "reason", "fault"), ended.attempts)
    yield _counted("arl_studies_ended", "Studies that ended.", ("state", "reason"), ended.studies)
    for name, text, kind in (
        ("arl_promotions", "Candidates that became a model's incumbent.", CandidatePromoted.kind),
        ("arl_worker_claims", "Studies that a worker took over.", WorkerClaimed.kind),
        ("arl_proposer_waits", "Times that a proposer could not go on.", ProposerWaits.kind),
    ):
        yield CounterMetricFamily(name, text, value=ended.plain[kind])


def _labelled(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family


def _gauges(
    name: str, text: str, labels: Sequence[str], values: Mapping[tuple[str, ...], float]
) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for value, count in values.items():
        family.add_metric(value, count)
    return family


def _counted(
    name: str, text: str, labels: Sequence[str], values: Mapping[tuple[str, ...], int]
) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for value, count in values.items():
        family.add_metric(value, count)
    return family


def _plain(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
