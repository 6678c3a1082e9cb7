"""Metrics of the activator."""

from __future__ import annotations

from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)
_SERVICE = ("namespace", "workload")
_BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3000.0)


class ActivatorMetrics:
    """Counters by namespace and workload, the service: as those of the services themselves."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "athanor_activator_requests",
            "Requests that proxies asked for: passed at once, held until a pod answered, timeout, or unknown.",
            [*_SERVICE, "outcome"],
            registry=self._registry,
        )
        self.waiting = Gauge(
            "athanor_activator_waiting_requests",
            "Requests that wait for the first pod.",
            _SERVICE,
            registry=self._registry,
        )
        self.held = Histogram(
            "athanor_activator_held_seconds",
            "How long held requests waited.",
            _SERVICE,
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self.starts = Counter(
            "athanor_activator_starts", "Services started for a request.", _SERVICE, registry=self._registry
        )
        self.stops = Counter(
            "athanor_activator_stops", "Services stopped without requests.", _SERVICE, registry=self._registry
        )

    def of(self, metric: _Metric, service: str, *more: str) -> _Metric:
        """Return a service's child of a metric."""
        return metric.labels(self._namespace, service, *more)

    def render(self) -> bytes:
        """Return all of them in Prometheus' text format."""
        return generate_latest(self._registry)
