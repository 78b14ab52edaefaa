"""Load, metrics as Prometheus reads them, and health over HTTP."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lefleet.errors import BadInput
from lefleet.server import monitoring
from lefleet.server.monitoring import WINDOW_S, BusyMeter, HealthServer, Metrics
from lefleet_client.wire import ServerStatus
from tests.client.transport.waiting import LONG_S, until
from tests.server.samples import ANSWERED, outcome, status


@dataclass
class Server:
    is_ready: bool = True
    dropped: dict = field(default_factory=lambda: {"length": 2, "no_session": 9})
    probes: dict = field(default_factory=lambda: {"jpeg": 7})
    other_instances: int = 1
    state: dict = field(default_factory=lambda: {"sessions": 3, "load": 0.5, "draining": False})

    def status(self) -> ServerStatus:
        return status(max_sessions=16, **self.state)


def samples(metrics: Metrics) -> dict:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_outcomes_are_counted_by_their_end():
    metrics = Metrics()
    metrics.finished(ANSWERED)
    metrics.finished(outcome(result="failed", reason="no", superseded=1))
    metrics.finished(outcome(result="stale", superseded=0))
    metrics.finished(ANSWERED)
    seen = samples(metrics)
    by_result = {r: seen["lefleet_requests_total", r] for r in ("answered", "failed", "stale")}
    assert by_result == {"answered": 2, "failed": 1, "stale": 1}
    assert seen[("lefleet_superseded_total",)] == 5


def test_durations_are_of_answers_only_and_in_seconds():
    metrics = Metrics()
    metrics.finished(ANSWERED)
    metrics.finished(outcome(result="failed", inference_ms=9000.0))
    seen = samples(metrics)
    assert seen[("lefleet_inference_seconds_sum",)] == pytest.approx(0.04)
    assert seen[("lefleet_queue_wait_seconds_sum",)] == pytest.approx(0.02)
    assert seen[("lefleet_prepare_seconds_sum",)] == pytest.approx(0.003)
    assert seen["lefleet_inference_seconds_bucket", "0.025"] == 0
    assert seen["lefleet_inference_seconds_bucket", "0.05"] == 1
    assert seen["lefleet_batch_size_bucket", "1.0"] == 1


def test_every_result_is_there_before_the_first_request():
    seen = samples(Metrics())
    assert [seen["lefleet_requests_total", r] for r in ("answered", "failed", "stale")] == [0] * 3


def test_the_state_of_a_server_is_read_at_each_scrape():
    metrics, server = Metrics(), Server()
    assert ("lefleet_sessions",) not in samples(metrics)
    metrics.watch(server, {"audit": lambda: 4})
    seen = samples(metrics)
    names = ("sessions", "max_sessions", "load", "ready", "draining")
    assert [seen[(f"lefleet_{name}",)] for name in names] == [3, 16, 0.5, 1, 0]
    assert seen["lefleet_probes_total", "jpeg"] == 7
    assert seen["lefleet_dropped_total", "length"] == 2
    assert seen["lefleet_dropped_total", "no_session"] == 9
    assert seen["lefleet_skipped_total", "audit"] == 4
    assert seen[("lefleet_other_instances_total",)] == 1
    server.state |= {"draining": True, "sessions": 2}
    server.is_ready = False
    seen = samples(metrics)
    assert [seen[(f"lefleet_{name}",)] for name in ("draining", "sessions", "ready")] == [1, 2, 0]


def test_every_reason_and_codec_is_there_before_the_first_message():
    metrics = Metrics()
    metrics.watch(Server(dropped={}, probes={}), {})
    seen = samples(metrics)
    reasons = {key[1]: value for key, value in seen.items() if key[0] == "lefleet_dropped_total"}
    assert reasons == dict.fromkeys(
        (
            *("length", "version", "type", "not_an_observation", "key", "question"),
            *("no_session", "too_large", "jump", "unanswered"),
        ),
        0,
    )
    assert [seen["lefleet_probes_total", codec] for codec in ("jpeg", "raw")] == [0, 0]


def test_a_reason_that_is_not_known_beforehand_is_shown_too():
    metrics = Metrics()
    metrics.watch(Server(dropped={"other": 3}), {})
    assert samples(metrics)["lefleet_dropped_total", "other"] == 3


def test_two_servers_in_one_process_do_not_share_numbers():
    one, other = Metrics(), Metrics()
    one.finished(ANSWERED)
    assert samples(other)["lefleet_requests_total", "answered"] == 0


def test_load_is_the_busy_share_of_the_last_seconds():
    now = [0.0]
    meter = BusyMeter(lambda: now[0])
    assert meter.read() == 0.0
    now[0] = 2.0
    meter.add(1.0, 2.0)
    assert meter.read() == 0.5
    now[0] = 6.0
    assert meter.read() == 1.0 / WINDOW_S
    now[0] = 60.0
    assert meter.read() == 0.0


def test_load_never_leaves_its_range():
    now = [10.0]
    meter = BusyMeter(lambda: now[0])
    meter.add(0.0, 10.0)
    now[0] = 10.5
    assert 0.0 <= meter.read() <= 1.0


class State:
    why = "warming up"


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def health(state):
    with HealthServer("127.0.0.1", 0, lambda: state.why, lambda: b"lefleet_load 0.5\n") as server:
        yield server


def get(health: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urlopen(health.address + path, timeout=LONG_S) as page:
            return page.status, page.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_lives_while_it_warms_up(health):
    assert get(health, "/healthz") == (200, "ok\n")


def test_it_is_ready_or_says_why_not(health, state):
    assert get(health, "/readyz") == (503, "warming up\n")
    state.why = ""
    assert get(health, "/readyz") == (200, "ready\n")
    state.why = "draining"
    assert get(health, "/readyz") == (503, "draining\n")


def test_metrics_are_served_as_prometheus_wants_them(health):
    with urlopen(health.address + "/metrics?x=1", timeout=LONG_S) as page:
        assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert page.read() == b"lefleet_load 0.5\n"


@pytest.mark.parametrize("path", ["/", "/metrics/", "/../etc/passwd", "/healthzz"])
def test_there_is_nothing_else(health, path):
    assert get(health, path)[0] == 404


def test_only_reading_is_possible(health):
    with pytest.raises(HTTPError) as caught:
        urlopen(health.address + "/healthz", data=b"x", timeout=LONG_S)
    with caught.value as error:
        assert error.code == 501


def test_a_silent_connection_holds_up_no_other(health):
    place = urlsplit(health.address)
    with socket.create_connection((place.hostname, place.port), LONG_S):
        assert get(health, "/healthz")[0] == 200


@contextmanager
def connections(health: HealthServer, count: int) -> Iterator[list[socket.socket]]:
    place = urlsplit(health.address)
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((place.hostname, place.port), LONG_S))
            for _ in range(count)
        ]


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    with connection.makefile("rb") as stream:
        return stream.read()


def test_four_hundred_connections_are_answered_by_one_thread(health):
    threads = threading.active_count()
    with connections(health, 400) as opened:
        for connection in opened:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert threading.active_count() == threads
        assert {answer(connection).split()[1] for connection in opened} == {b"200"}


def test_connections_that_drip_hold_no_threads_and_delay_no_other(health):
    threads = threading.active_count()
    with connections(health, 50) as opened:
        for byte in b"GET /healthz":
            for connection in opened:
                connection.sendall(bytes([byte]))
            assert get(health, "/healthz") == (200, "ok\n")
            assert threading.active_count() == threads


def test_a_request_has_a_time_as_a_whole(health, monkeypatch):
    """A byte now and then does not prolong it."""
    monkeypatch.setattr(monitoring, "_REQUEST_S", 0.3)
    with connections(health, 1) as (slow,):
        closed = threading.Event()
        reader = threading.Thread(target=lambda: (answer(slow), closed.set()))
        reader.start()
        with suppress(OSError):
            until(lambda: slow.sendall(b"x"), closed)
        reader.join(LONG_S)
        assert closed.is_set()


def test_a_header_without_end_is_cut_off(health):
    with connections(health, 1) as (endless,), suppress(OSError):
        endless.sendall(b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 100_000)
        assert answer(endless) == b""
    assert get(health, "/healthz")[0] == 200


def test_the_oldest_of_too_many_connections_make_room(health, monkeypatch):
    monkeypatch.setattr(monitoring, "_CONNECTIONS", 8)
    with connections(health, 12) as opened:
        assert get(health, "/healthz")[0] == 200
        for connection in opened[:5]:
            with suppress(ConnectionResetError):
                assert answer(connection) == b""
        opened[-1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert answer(opened[-1]).split()[1] == b"200"


def test_closing_cuts_off_what_is_open():
    health = HealthServer("127.0.0.1", 0, str, bytes)
    with connections(health, 3) as opened:
        assert get(health, "/healthz")[0] == 200
        health.close()
        for connection in opened:
            with suppress(ConnectionResetError):
                assert answer(connection) == b""
    assert not [thread for thread in threading.enumerate() if thread.name == "health"]


def test_after_closing_the_port_is_free():
    health = HealthServer("127.0.0.1", 0, str, bytes)
    port = urlsplit(health.address).port
    health.close()
    with HealthServer("127.0.0.1", port, str, bytes) as again:
        assert get(again, "/readyz")[0] == 200


def test_a_port_in_use_is_bad_input(health):
    with pytest.raises(BadInput, match="http_port: "):
        HealthServer("127.0.0.1", urlsplit(health.address).port, str, bytes)
