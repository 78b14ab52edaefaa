"""Links between programs: opened, lost and found again."""

import signal
import socket
import subprocess
import sys
import threading

import msgspec
import pytest

from lefleet_client.transport import (
    OBSERVATION,
    CannotOpen,
    ZenohSettings,
    ZenohTransport,
    ask_one,
)
from tests.client.transport.networks import FREE_PORT, QUICK, Router, endpoint_of
from tests.client.transport.waiting import LONG_S, Log, bounded, until

CHILD = """
import sys
from lefleet_client.transport import ZenohSettings, ZenohTransport
transport = ZenohTransport.open(ZenohSettings(connect=(sys.argv[1],)))
transport.subscribe("child/obs", lambda sample: None)
transport.announce("child/alive")
sys.stdin.read()
"""


def test_without_a_listener_a_client_fails_with_the_endpoint():
    settings = ZenohSettings(connect=("tcp/127.0.0.1:1",), open_timeout_s=0.3)
    with pytest.raises(
        CannotOpen, match=r"^nothing answers at tcp/127\.0\.0\.1:1 within 0\.3 s\. Is "
    ):
        ZenohTransport.open(settings)


def test_a_listener_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"tcp/127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(CannotOpen):
            ZenohTransport.open(ZenohSettings(connect=(endpoint,), open_timeout_s=0.3))


def test_a_peer_opens_alone_and_connects_when_another_listens():
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        endpoint = f"tcp/127.0.0.1:{reserved.getsockname()[1]}"
    with ZenohTransport.open(ZenohSettings(mode="peer", connect=(endpoint,))) as early:
        log = Log()
        early.watch("late/alive", log.add)
        with ZenohTransport.open(ZenohSettings(mode="peer", listen=(endpoint,))) as late:
            late.announce("late/alive")
            log.wait_for(("late/alive", True))


def test_everything_declared_is_back_after_a_router_restart():
    router = Router(FREE_PORT)
    settings = ZenohSettings(connect=(router.endpoint,))
    with ZenohTransport.open(settings) as edge, ZenohTransport.open(settings) as server:
        log, heard = Log(), threading.Event()
        server.announce("s/alive")
        server.serve("s/status", lambda question: b"here")
        server.subscribe("s/obs", lambda sample: heard.set())
        publisher = edge.publisher("s/obs", OBSERVATION)
        edge.watch("s/alive", log.add)
        log.wait_for(("s/alive", True))

        router.close()
        log.wait_for(("s/alive", False))
        bounded(lambda: publisher.put(b"lost", b""))
        assert edge.ask("s/status", b"", 0.2).replies == ()

        router = Router(router.endpoint)
        log.wait(lambda items: items[-1] == ("s/alive", True) and len(items) > 2)
        until(lambda: publisher.put(b"found", b""), heard)
        assert ask_one(edge, "s/status", b"", LONG_S) == b"here"
    router.close()


def test_a_killed_process_is_gone(routed):
    log = Log()
    routed.node().watch("child/alive", log.add)
    command = [sys.executable, "-c", CHILD, routed.router.endpoint]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        try:
            log.wait_for(("child/alive", True))
        finally:
            child.send_signal(signal.SIGKILL)
    log.wait_for(("child/alive", False))


def test_a_process_ends_by_itself_even_if_it_forgets_to_close(routed):
    child = subprocess.run(
        [sys.executable, "-c", CHILD, routed.router.endpoint],
        input=b"",
        timeout=LONG_S * 2,
        check=False,
    )
    assert child.returncode == 0


def test_two_routers_carry_messages_from_one_side_to_the_other():
    first = Router(FREE_PORT)
    second = ZenohSettings(
        mode="router", connect=(first.endpoint,), listen=(FREE_PORT,), extra=QUICK
    )
    with ZenohTransport.open(second) as router:
        there = endpoint_of(router._session, "router")
        near, far = (ZenohSettings(connect=(place,)) for place in (first.endpoint, there))
        with ZenohTransport.open(near) as edge, ZenohTransport.open(far) as server:
            server.serve("a", lambda question: b"far away")
            server.announce("ready")
            log = Log()
            edge.watch("ready", log.add)
            log.wait_for(("ready", True))
            assert ask_one(edge, "a", b"", LONG_S) == b"far away"
    first.close()


def test_a_frozen_process_stalls_no_other_and_is_missed(routed):
    edge, log = routed.node(), Log()
    edge.watch("child/alive", log.add)
    command = [sys.executable, "-c", CHILD, routed.router.endpoint]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        try:
            log.wait_for(("child/alive", True))
            child.send_signal(signal.SIGSTOP)
            publisher = edge.publisher("child/obs", OBSERVATION)
            for _ in range(50):
                bounded(lambda: publisher.put(bytes(1 << 20), b""))
            log.wait_for(("child/alive", False))
            assert edge.present("child/alive", LONG_S) == frozenset()
        finally:
            child.kill()


def test_an_address_in_use_is_a_typed_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"tcp/127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CannotOpen, match=endpoint):
            ZenohTransport.open(ZenohSettings(mode="peer", listen=(endpoint,)))


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("tcp/127.0.0.1:{port}", "another program listens there"),
        ("tcp/192.0.2.1:0", "this machine"),
    ],
)
def test_a_place_that_cannot_be_listened_on_is_named(place, words):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = place.format(port=taken.getsockname()[1])
        with pytest.raises(CannotOpen, match=f"cannot listen on {endpoint}: .*{words}"):
            ZenohTransport.open(ZenohSettings(mode="peer", listen=(endpoint,), insecure=True))


def test_a_node_connects_only_to_what_it_was_given():
    """Zenoh's peers tell each other of addresses, and would connect to all of them."""
    settings = ZenohSettings(mode="peer", listen=(FREE_PORT,), extra=QUICK)
    with ZenohTransport.open(settings) as middle:
        connect = (endpoint_of(middle._session, "peer"),)
        edge = msgspec.structs.replace(settings, connect=connect)
        with ZenohTransport.open(edge) as one, ZenohTransport.open(edge) as other:
            log = Log()
            middle.watch("test/*", log.add)
            one.announce("test/one")
            other.announce("test/other")
            log.wait(lambda seen: len(seen) == 2)
            # A second link would be made by now: it takes as long as the first.
            with ZenohTransport.open(edge) as later:
                later.announce("test/later")
                log.wait(lambda seen: len(seen) == 3)
                linked = [len(node._session.info.peers_zid()) for node in (one, other, later)]
            assert linked == [1, 1, 1]
