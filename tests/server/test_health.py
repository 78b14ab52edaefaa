"""Health over HTTP, as a load balancer and Prometheus ask for it."""

import socket
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from lefleet.errors import BadInput
from lefleet.server.health import HealthServer
from tests.client.transport.waiting import LONG_S


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


def test_it_is_ready_when_nothing_speaks_against_it_and_says_what_does(health, state):
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


def test_a_visitor_who_says_nothing_holds_up_nobody(health):
    place = urlsplit(health.address)
    with socket.create_connection((place.hostname, place.port), LONG_S):
        assert get(health, "/healthz")[0] == 200


def test_after_closing_the_port_is_free():
    health = HealthServer("127.0.0.1", 0, str, bytes)
    port = urlsplit(health.address).port
    health.close()
    with HealthServer("127.0.0.1", port, str, bytes) as again:
        assert get(again, "/readyz")[0] == 200


def test_a_port_in_use_is_bad_input(health):
    with pytest.raises(BadInput, match="http_port: "):
        HealthServer("127.0.0.1", urlsplit(health.address).port, str, bytes)
