"""Numbers about a server: its load, metrics for Prometheus, and three pages over HTTP."""

import asyncio
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Protocol, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from lefleet.errors import BadInput
from lefleet.server.observers import RequestOutcome
from lefleet_client.wire import ServerStatus
from lefleet_client.wire.image import ImageCodec

WINDOW_S = 5.0
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BATCHES = (1, 2, 4, 8, 16, 32)
# All reasons are shown from the start: growth cannot be seen in a series that begins with its
# first event.
_REASONS = (
    "length", "version", "type", "not_an_observation", "key", "question", "no_session",
    "too_large", "jump", "unanswered",
)  # fmt: skip
_CODECS: tuple[str, ...] = get_args(ImageCodec)
_CONNECTIONS = 512
"""That are open, and as many again that wait to be accepted."""
_REQUEST_S = 5.0
"""From the connection to the last byte of the answer."""
_HEADER_BYTES = 8192
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class BusyMeter:
    """The share of the last seconds that was spent on inference, from 0 to 1.

    One thread adds spans in the order of time, any thread reads; one lock guards spans and sum.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun_s = clock()
        self._spans: deque[tuple[float, float]] = deque()
        self._busy_s = 0.0

    def add(self, start_s: float, end_s: float) -> None:
        with self._lock:
            self._spans.append((start_s, end_s))
            self._busy_s += end_s - start_s
            self._drop_before(end_s - WINDOW_S)

    def read(self) -> float:
        now = self._clock()
        with self._lock:
            since = max(now - WINDOW_S, self._begun_s)
            self._drop_before(since)
            too_early = max(0.0, since - self._spans[0][0]) if self._spans else 0.0
            length = now - since
            return min(1.0, max(0.0, (self._busy_s - too_early) / length)) if length > 0 else 0.0

    def _drop_before(self, since: float) -> None:
        while self._spans and self._spans[0][1] <= since:
            start_s, end_s = self._spans.popleft()
            self._busy_s -= end_s - start_s
        if not self._spans:
            self._busy_s = 0.0


class MetricsSource(Protocol):
    """What is read of a server at each scrape, on the thread that answers it."""

    def status(self) -> ServerStatus: ...

    @property
    def is_ready(self) -> bool: ...

    @property
    def dropped(self) -> Mapping[str, int]:
        """Messages that were dropped, by reason."""

    @property
    def probes(self) -> Mapping[str, int]:
        """Answered probes by image codec."""

    @property
    def other_instances(self) -> int:
        """Other servers that were seen under this server's name."""


class Metrics:
    """Counts outcomes; with `watch`, also shows the state of a server. Has its own registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._watched: _ServerState | None = None
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

    def watch(self, server: MetricsSource, skipped: Mapping[str, Callable[[], int]]) -> None:
        """Show this server's state from now on, and how much its audit and capture lost."""
        if self._watched is not None:
            self._registry.unregister(self._watched)
        self._watched = _ServerState(server, skipped)
        self._registry.register(self._watched)

    def finished(self, outcome: RequestOutcome) -> None:
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


class _ServerState(Collector):
    def __init__(self, server: MetricsSource, skipped: Mapping[str, Callable[[], int]]) -> None:
        self._server = server
        self._skipped = skipped

    def collect(self) -> Iterator[Metric]:
        server, status = self._server, self._server.status()
        yield _gauge("sessions", "Robots with a session.", status.sessions)
        yield _gauge("max_sessions", "Robots that may have one.", status.max_sessions)
        yield _gauge("load", "Share of time that the policy is at work.", status.load)
        yield _gauge("ready", "1 when the server takes robots.", server.is_ready)
        yield _gauge("draining", "1 when the server is about to go.", status.draining)
        seen = "Other servers that were seen under this server's name."
        yield CounterMetricFamily("lefleet_other_instances", seen, value=server.other_instances)
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


class HealthServer:
    """Answers from the start of the process, so that warming up can be seen.

    The thread `health` serves all connections in one event loop, and calls both callables there;
    `why_not_ready` is empty when the server is ready. So a connection that sends or reads slowly
    delays no other. It is cut off when its time is over; of too many, the oldest are cut off. With
    port 0 any free one is taken.
    """

    def __init__(
        self, host: str, port: int, why_not_ready: Callable[[], str], metrics: Callable[[], bytes]
    ) -> None:
        self._why_not_ready = why_not_ready
        self._metrics = metrics
        try:
            self._socket = socket.create_server((host, port), backlog=_CONNECTIONS)
        except OSError as error:
            raise BadInput(
                f"http_port: {host}:{port} cannot be listened on: {error.strerror}.",
                "Choose another port or host.",
            ) from error
        taken_host, taken_port = self._socket.getsockname()[:2]
        self.address = f"http://{taken_host}:{taken_port}"
        self._connections: dict[asyncio.StreamWriter, None] = {}
        self._loop = asyncio.new_event_loop()
        self._is_closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._is_closing.set)
        self._thread.join()

    def __enter__(self) -> "HealthServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        """Until it is closed; what is in flight then is cut off."""
        server = await asyncio.start_server(
            self._connected, sock=self._socket, limit=_HEADER_BYTES, backlog=_CONNECTIONS
        )
        await self._is_closing.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.transport.abort()
        self._connections[writer] = None
        try:
            async with asyncio.timeout(_REQUEST_S):
                writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                writer.close()
                await writer.wait_closed()
        except (asyncio.LimitOverrunError, asyncio.IncompleteReadError, TimeoutError, OSError):
            pass
        finally:
            self._connections.pop(writer, None)
            writer.transport.abort()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        status, kind, text = self._page(path) if method == "GET" else (501, _TEXT, b"only GET\n")
        lines = (
            f"HTTP/1.0 {status} {HTTPStatus(status).phrase}",
            "Server: lefleet",
            f"Content-Type: {kind}",
            f"Content-Length: {len(text)}",
        )
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + text

    def _page(self, path: str) -> tuple[int, str, bytes]:
        """Status, type and text of a page."""
        match path:
            case "/healthz":
                return 200, _TEXT, b"ok\n"
            case "/readyz":
                why = self._why_not_ready()
                return (503, _TEXT, f"{why}\n".encode()) if why else (200, _TEXT, b"ready\n")
            case "/metrics":
                return 200, _METRICS, self._metrics()
            case _:
                return 404, _TEXT, b"there are /healthz, /readyz and /metrics\n"
