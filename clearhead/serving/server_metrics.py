"""Metrics for Prometheus."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from .served_models import ServedModel

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class ServerMetrics:
    """Counts requests by route and status, and shows what waits for each model."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("clearhead_requests", "answered requests", ["route", "status"], registry=self.registry)
        self._seconds = Histogram(
            "clearhead_request_seconds", "time from request to response", ["route"], registry=self.registry
        )

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def watch(self, models: "Callable[[], Mapping[str, ServedModel]]") -> None:
        """Show the queues of these models."""
        self.registry.register(_Queues(models))

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)


class _Queues(Collector):
    def __init__(self, models: "Callable[[], Mapping[str, ServedModel]]") -> None:
        self._models = models

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the length of each queue."""
        texts, explanations = (
            GaugeMetricFamily(f"clearhead_waiting_{it}", f"{it} that wait for a model", labels=["model"])
            for it in ("texts", "explanations")
        )
        for name, model in self._models().items():
            texts.add_metric([name], model.batcher.waiting)
            explanations.add_metric([name], model.explanations.waiting)
        yield from (texts, explanations)
