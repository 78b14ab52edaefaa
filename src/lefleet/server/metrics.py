"""Numbers for Prometheus: how requests went, and what the server is doing now."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lefleet.server.outcome import Outcome
from lefleet_client.wire import ServerStatus
from lefleet_client.wire.image import ImageCodec

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BATCHES = (1, 2, 4, 8, 16, 32)
# Whoever looks for growth sees none in a series that begins with its first event.
_REASONS = (
    "length", "version", "type", "not_an_observation", "key", "question", "no_session",
    "too_large", "strangers",
)  # fmt: skip
_CODECS: tuple[str, ...] = get_args(ImageCodec)


class Watched(Protocol):
    """What is read of a server at each scrape, on the thread of the one who scrapes."""

    def status(self) -> ServerStatus: ...

    @property
    def is_ready(self) -> bool: ...

    @property
    def dropped(self) -> Mapping[str, int]:
        """Messages that nothing was done with, by reason."""

    @property
    def probes(self) -> Mapping[str, int]:
        """Answered probes by image codec."""


class Metrics:
    """Counts outcomes; with `watch`, also shows the state of a server. Has its own registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._queue_wait = self._histogram("queue_wait_seconds", "Wait of a request, in all.")
        self._prepare = self._histogram("prepare_seconds", "Decoding and preprocessing.")
        self._inference = self._histogram("inference_seconds", "The policy and postprocessing.")
        self._batch = Histogram(
            "lefleet_batch_size",
            "Requests in one forward pass.",
            buckets=_BATCHES,
            registry=self._registry,
        )
        self._requests = Counter(
            "lefleet_requests", "Requests by their end.", ["result"], registry=self._registry
        )
        for result in ("answered", "failed", "stale"):
            self._requests.labels(result)
        self._superseded = Counter(
            "lefleet_superseded",
            "Requests that newer ones of the same robot overwrote.",
            registry=self._registry,
        )

    def watch(self, server: Watched, skipped: Mapping[str, Callable[[], int]]) -> None:
        """Show this server's state from now on, and how much its audit and capture lost."""
        self._registry.register(_State(server, skipped))

    def finished(self, outcome: Outcome) -> None:
        self._requests.labels(outcome.result).inc()
        self._superseded.inc(outcome.superseded)
        if outcome.result == "answered":
            self._queue_wait.observe(outcome.queue_wait_ms / 1000)
            self._prepare.observe(outcome.prepare_ms / 1000)
            self._inference.observe(outcome.inference_ms / 1000)
            self._batch.observe(outcome.batch_size)

    def exposition(self) -> bytes:
        """All numbers, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"lefleet_{name}", text, buckets=_SECONDS, registry=self._registry)


class _State(Collector):
    def __init__(self, server: Watched, skipped: Mapping[str, Callable[[], int]]) -> None:
        self._server = server
        self._skipped = skipped

    def collect(self) -> Iterator[Metric]:
        server, status = self._server, self._server.status()
        yield _gauge("sessions", "Robots with a session.", status.sessions)
        yield _gauge("max_sessions", "Robots that may have one.", status.max_sessions)
        yield _gauge("load", "Share of time that the policy is at work.", status.load)
        yield _gauge("ready", "1 when the server takes robots.", server.is_ready)
        yield _gauge("draining", "1 when the server is about to go.", status.draining)
        dropped = dict.fromkeys(_REASONS, 0) | dict(server.dropped)
        yield _counters("dropped", "Messages by why they were dropped.", "reason", dropped)
        probes = dict.fromkeys(_CODECS, 0) | dict(server.probes)
        yield _counters("probes", "Answered probes by image codec.", "codec", probes)
        skipped = {where: count() for where, count in self._skipped.items()}
        yield _counters("skipped", "Requests missing in audit or capture.", "where", skipped)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lefleet_{name}", text, value=float(value))


def _counters(name: str, text: str, label: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"lefleet_{name}", text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
