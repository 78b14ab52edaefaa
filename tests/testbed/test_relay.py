"""A relay delays each direction by its half, keeps the order, and loses nothing."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from lefleet.testbed.relay import Relay

SLACK_S = 0.15
"""A busy machine may be so much later, never earlier."""


@contextlib.contextmanager
def echo() -> Iterator[tuple[int, list[float]]]:
    """A server that sends everything back; its port, and when it got what."""
    arrived: list[float] = []

    def serve(link: socket.socket) -> None:
        with link:
            while piece := link.recv(65536):
                arrived.append(time.monotonic())
                link.sendall(piece)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], arrived
        # Closing alone does not wake the thread that accepts.
        listener.shutdown(socket.SHUT_RDWR)


def connected(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), timeout=10)


def received(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := link.recv(65536)):
        data += piece
    return data


def round_trip_s(link: socket.socket) -> float:
    began_s = time.monotonic()
    link.sendall(b"ping")
    assert received(link, 4) == b"ping"
    return time.monotonic() - began_s


@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.2])
def test_a_round_trip_takes_the_delay_longer(delay_s):
    with echo() as (port, _), Relay(port, delay_s=delay_s) as relay, connected(relay) as link:
        taken = [round_trip_s(link) for _ in range(5)]
    assert min(taken) >= delay_s
    assert sorted(taken)[2] <= delay_s + SLACK_S


def test_each_direction_takes_half_of_it():
    with echo() as (port, arrived), Relay(port, delay_s=0.4) as relay, connected(relay) as link:
        began_s = time.monotonic()
        link.sendall(b"ping")
        received(link, 4)
    assert 0.2 <= arrived[0] - began_s <= 0.2 + SLACK_S


def test_jitter_is_added_within_its_range_and_keeps_the_order():
    with (
        echo() as (port, _),
        Relay(port, delay_s=0.02, jitter_s=0.1) as relay,
        connected(relay) as link,
    ):
        taken = [round_trip_s(link) for _ in range(12)]
        sent = b"".join(number.to_bytes(2) for number in range(500))
        for start in range(0, len(sent), 10):
            link.sendall(sent[start : start + 10])
            time.sleep(0.001)
        assert received(link, len(sent)) == sent
    assert min(taken) >= 0.02
    assert sorted(taken)[6] <= 0.12 + SLACK_S
    assert max(taken) - min(taken) >= 0.02


def test_much_data_passes_whole_and_at_once():
    data = bytes(range(256)) * 20_000
    with echo() as (port, _), Relay(port, delay_s=0.1) as relay, connected(relay) as link:
        began_s = time.monotonic()
        threading.Thread(target=link.sendall, args=(data,), daemon=True).start()
        assert received(link, len(data)) == data
        assert time.monotonic() - began_s <= 3


def test_the_end_of_a_connection_is_passed_on_after_what_was_sent():
    with echo() as (port, _), Relay(port, delay_s=0.05) as relay, connected(relay) as link:
        link.sendall(b"last")
        link.shutdown(socket.SHUT_WR)
        assert received(link, 100) == b"last"


def test_without_a_server_the_connection_ends():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with Relay(port, delay_s=0.0) as relay, connected(relay) as link:
        assert link.recv(1) == b""


def test_it_ends_with_connections_open(caplog):
    with echo() as (port, _):
        with Relay(port, delay_s=0.01) as relay:
            link = connected(relay)
            round_trip_s(link)
        with link:
            assert link.recv(1) == b""
        with pytest.raises(OSError):  # noqa: PT011
            connected(relay)
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
