"""What Prometheus reads: the requests this process answered, and the ledger as it is."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller.wiring import Service
from ledger.gauges import read_gauges

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
UNMATCHED: Final = "unmatched"
"""The route of a request that none matches: addresses of strangers are no labels."""


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

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note one request; `route` is a template, never an address."""
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

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        began = time.monotonic()
        with self._service.ledger.read() as session:
            found = read_gauges(session)
        yield _labelled("arl_studies", "Studies by state.", "state", found.studies)
        yield _labelled("arl_trials", "Unfinished trials by state.", "state", found.trials)
        yield _labelled("arl_attempts", "Unfinished attempts by target.", "target", found.attempts)
        yield _plain("arl_leases", "Studies that a worker drives.", found.leases)
        yield _plain("arl_commands_pending", "Requests no worker answered yet.", found.pending)
        told = "Notifications that webhooks did not take, by state."
        yield _labelled("arl_notifications", told, "state", found.notifications)
        yield _plain("arl_promotions_awaiting", "Promotions that await approval.", found.awaiting)
        home = Path(self._service.settings.home)
        yield _plain("arl_disk_free_bytes", "Free below ARL_HOME.", shutil.disk_usage(home).free)
        yield _plain("arl_ledger_read_seconds", "Time these took.", time.monotonic() - began)


def _labelled(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family


def _plain(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
