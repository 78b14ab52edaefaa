"""What only Zenoh does: opening, losing and finding a network again, and how messages travel."""

import signal
import socket
import subprocess
import sys
import threading
import traceback

import msgspec
import pytest
import zenoh

from lefleet_client.transport import (
    ACTION,
    OBSERVATION,
    BadSettings,
    CannotOpen,
    Closed,
    ZenohFailed,
    ZenohSettings,
    ZenohTransport,
    ask_one,
    zenoh_transport,
)
from lefleet_client.transport.settings import zenoh_config
from lefleet_client.transport.zenoh_transport import WAITING_QUESTIONS
from lefleet_client.wire import MAX_MESSAGE_BYTES
from tests.client.transport.networks import FREE_PORT, QUICK, OverRouter, Router, endpoint_of
from tests.client.transport.waiting import LONG_S, Log, bounded, until

CHILD = """
import sys
from lefleet_client.transport import ZenohSettings, ZenohTransport
transport = ZenohTransport.open(ZenohSettings(connect=(sys.argv[1],)))
transport.subscribe("child/obs", lambda sample: None)
transport.announce("child/alive")
sys.stdin.read()
"""


@pytest.fixture
def network():
    network = OverRouter()
    yield network
    network.close()


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


def test_a_killed_process_is_gone(network):
    log = Log()
    network.node().watch("child/alive", log.add)
    command = [sys.executable, "-c", CHILD, network.router.endpoint]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        try:
            log.wait_for(("child/alive", True))
        finally:
            child.send_signal(signal.SIGKILL)
    log.wait_for(("child/alive", False))


def test_a_process_ends_by_itself_even_if_it_forgets_to_close(network):
    child = subprocess.run(
        [sys.executable, "-c", CHILD, network.router.endpoint],
        input=b"",
        timeout=LONG_S * 2,
        check=False,
    )
    assert child.returncode == 0


@pytest.mark.parametrize(
    ("qos", "reliability", "priority", "express"),
    [
        (OBSERVATION, zenoh.Reliability.BEST_EFFORT, zenoh.Priority.DATA, False),
        (ACTION, zenoh.Reliability.RELIABLE, zenoh.Priority.INTERACTIVE_HIGH, True),
    ],
)
def test_messages_are_dropped_under_congestion_and_urgent_ones_go_first(
    network, qos, reliability, priority, express
):
    sender, receiver = network.node(), network.node()
    log = Log()
    receiver._session.declare_subscriber("a", log.add)
    network.settle()
    publisher = sender.publisher("a", qos)
    publisher.put(b"", b"")
    (sample,) = log.wait(len)
    assert sample.congestion_control == zenoh.CongestionControl.DROP
    assert (sample.priority, sample.express) == (priority, express)
    assert publisher._entity.reliability == reliability


def test_a_raw_observation_arrives_whole(network):
    sender, receiver = network.node(), network.node()
    body = bytes(range(256)) * 12_000
    log, heard = Log(), threading.Event()
    receiver.subscribe("a", lambda sample: (log.add(sample.payload == body), heard.set()))
    network.settle()
    publisher = sender.publisher("a", OBSERVATION)
    until(lambda: publisher.put(body, b""), heard)
    assert all(log)


def test_a_message_above_the_limit_is_dropped_and_the_link_lives():
    limit = {"transport/link/rx/max_message_size": 1 << 20}
    receiving = ZenohSettings(mode="peer", listen=(FREE_PORT,), extra={**QUICK, **limit})
    with ZenohTransport.open(receiving) as receiver:
        endpoint = endpoint_of(receiver._session, "peer")
        sending = ZenohSettings(connect=(endpoint,), shared_memory=False)
        with ZenohTransport.open(sending) as sender:
            log = Log()
            receiver.subscribe("a", lambda sample: log.add(len(sample.payload)))
            receiver.announce("ready")
            seen = Log()
            sender.watch("ready", seen.add)
            seen.wait_for(("ready", True))
            publisher = sender.publisher("a", ACTION)
            for size in (1, 2 << 20, 2):
                publisher.put(bytes(size), b"")
            assert log.wait_for(2) == [1, 2]


def test_the_measured_settings_reach_zenoh():
    config = zenoh_config(ZenohSettings(connect=("tcp/localhost:1",), open_timeout_s=1.5))
    found = {
        path: msgspec.json.decode(config.get_json(path))
        for path in (
            "scouting/multicast/enabled",
            "transport/link/tx/lease",
            "transport/link/tx/queue/size/interactive_high",
            "connect/timeout_ms",
            "transport/unicast/open_timeout",
            "transport/link/rx/max_message_size",
            "transport/shared_memory/transport_optimization/message_size_threshold",
        )
    }
    assert list(found.values()) == [False, 1000, 16, 1500, 1500, MAX_MESSAGE_BYTES, 65536]
    retry = msgspec.json.decode(config.get_json("connect/retry"))
    assert (retry["period_init_ms"], retry["period_max_ms"]) == (100, 250)


def test_what_is_closed_is_forgotten(network):
    node = network.node()
    kept = node.announce("kept")
    for one in (
        node.publisher("a", ACTION),
        node.subscribe("a", print),
        node.serve("a", print),
        node.watch("a", print),
        node.announce("a"),
    ):
        one.close()
    assert list(node._declared) == [kept]


def test_only_a_closed_session_is_called_closed(network):
    node = network.node()
    publisher = node.publisher("a", ACTION)
    publisher._entity.undeclare()
    with pytest.raises(ZenohFailed, match=r"^Zenoh failed: Undeclared publisher$"):
        publisher.put(b"", b"")
    node._session.close()
    with pytest.raises(Closed, match=r"^the transport is closed$"):
        node.publisher("b", ACTION)


def test_an_error_keeps_no_session_alive(network):
    """A daemon thread could release it last, while the interpreter ends."""

    def fail(session):
        raise Closed("the program is ending")

    with pytest.raises(Closed) as caught:
        network.node()._call(fail)
    frames = [frame for frame, _ in traceback.walk_tb(caught.tb)]
    kept = [value for frame in frames for value in frame.f_locals.values()]
    assert not any(isinstance(value, zenoh.Session) for value in kept)


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


def test_a_frozen_process_stalls_no_other_and_is_missed(network):
    edge, log = network.node(), Log()
    edge.watch("child/alive", log.add)
    command = [sys.executable, "-c", CHILD, network.router.endpoint]
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
    ("settings", "field"),
    [
        ({}, "connect"),
        ({"connect": ["tcp/localhost:1"], "listen": ["tcp/localhost:2"]}, "listen"),
        ({"connect": ["tls/h:1"]}, "connect"),
        ({"mode": "peer", "listen": ["quic/h:1"]}, "listen"),
        ({"mode": "router"}, "listen"),
        ({"mode": "router", "connect": ["tcp/localhost:1"]}, "listen"),
        ({"connect": ["tcp/localhost:1"], "tls": {"ca": "x", "cert": "x", "key": "x"}}, "connect"),
        ({"connect": ["tls/h:1"], "tls": {"ca": "x", "cert": "x", "key": "x"}}, r"tls\.ca"),
        ({"connect": ["nonsense"]}, "connect"),
        ({"connect": ["tcp/localhost:1"], "extra": {"no/such/thing": 1}}, "no/such/thing"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_name_the_field(settings, field):
    with pytest.raises(BadSettings, match=f"^{field}: "):
        ZenohTransport.open(msgspec.convert(settings, ZenohSettings))


def test_a_publisher_can_be_closed_while_another_thread_publishes(network):
    """Zenoh itself cannot: it says that the publisher is borrowed, and leaves it declared."""
    node = network.node()
    for _ in range(30):
        publisher = node.publisher("test/busy", OBSERVATION)
        flood = Flood(publisher)
        flood.start()
        assert flood.has_begun.wait(20)
        bounded(publisher.close)
        flood.join(20)
        assert isinstance(flood.raised, Closed)


class Flood(threading.Thread):
    """Publishes until that is no longer possible."""

    def __init__(self, publisher):
        super().__init__(daemon=True)
        self._publisher = publisher
        self.has_begun = threading.Event()
        self.raised = None

    def run(self):
        try:
            while True:
                self._publisher.put(b"x" * 100_000, b"")
                self.has_begun.set()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.raised = error


@pytest.mark.parametrize("endpoint", ["127.0.0.1:7447", "localhost", "tcp/localhost"])
def test_what_is_no_endpoint_is_named_with_an_example(endpoint):
    with pytest.raises(
        BadSettings, match=f"connect: '{endpoint}' is not an endpoint. Write it like tls/"
    ):
        ZenohTransport.open(ZenohSettings(connect=(endpoint,)))


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


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp/10.0.0.5:7447",
        "tcp/0.0.0.0:7447",
        "tcp/[::]:7447",
        "udp/10.0.0.5:7447",
        "ws/robots.example:80",
        "tcp/localhost.example:1",
        "tcp/127.0.0.1.example:1",
        "tcp/10.0.0.5:7447#so_sndbuf=127.0.0.1:1",
        "tcp/10.0.0.5:7447?rel=1",
        "serial/dev/ttyUSB0",
    ],
)
@pytest.mark.parametrize("side", ["connect", "listen"])
def test_beyond_this_machine_only_what_is_encrypted_is_accepted(endpoint, side):
    settings = ZenohSettings(mode="peer", **{side: (endpoint,)})
    with pytest.raises(BadSettings, match=f"^{side}: ") as caught:
        ZenohTransport.open(settings)
    for word in (repr(endpoint), "tls/", "lefleet certs", "--insecure"):
        assert word in str(caught.value)
    assert settings.is_insecure
    zenoh_config(msgspec.structs.replace(settings, insecure=True))


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp/127.0.0.1:0",
        "tcp/127.9.9.9:7447",
        "tcp/[::1]:7447",
        "tcp/localhost:7447",
        "udp/localhost:7447#iface=lo",
        "unixsock-stream//tmp/zenoh.sock",
    ],
)
def test_on_this_machine_nothing_needs_to_be_encrypted(endpoint):
    settings = ZenohSettings(mode="peer", listen=(endpoint,))
    zenoh_config(settings)
    assert not settings.is_insecure


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("connect/endpoints", ["tcp/10.0.0.5:7447"]),
        ("listen/endpoints/peer", ["tcp/10.0.0.5:7447"]),
        ("/listen/endpoints", ["tcp/10.0.0.5:7447"]),
        ("connect", {"endpoints": ["tcp/10.0.0.5:7447"]}),
    ],
)
def test_endpoints_are_not_hidden_among_zenohs_own_settings(path, value):
    extra = {path: value}
    with pytest.raises(BadSettings, match="give endpoints as connect and listen"):
        ZenohTransport.open(ZenohSettings(connect=("tcp/localhost:1",), extra=extra))


def test_a_peer_that_watches_is_told_all_that_is_present(network):
    """Zenoh's answer alone was empty in one of five such questions, on an idle machine."""
    robots = network.node()
    tokens = [robots.announce(f"c/{number}/alive") for number in range(50)]
    keys = {f"c/{number}/alive" for number in range(50)}
    with ZenohTransport.open(
        ZenohSettings(mode="peer", connect=(network.router.endpoint,))
    ) as server:
        log = Log()
        server.watch("c/*/alive", log.add)
        log.wait(lambda news: {(key, True) for key in keys} <= set(news))
        assert [server.present("c/*/alive", LONG_S) for _ in range(200)] == [keys] * 200
        tokens[0].close()
        log.wait_for(("c/0/alive", False))
        assert server.present("c/0/alive", LONG_S) == frozenset()


def test_questions_without_end_hold_up_nothing_else_on_their_link(network):
    """One that is being answered, and a thousand that wait: samples still arrive."""
    server, edge = network.node(), network.node()
    is_asked, may_answer, log = threading.Event(), threading.Event(), Log()

    def answer(_question):
        is_asked.set()
        may_answer.wait(LONG_S)
        return b"here"

    server.serve("s/*/session", answer)
    server.serve("s/last", lambda question: b"last")
    server.subscribe("s/obs", lambda sample: log.add(sample.payload))
    network.settle()
    waiting = [
        edge._session.get(f"s/{number}/session", payload=b"x" * 1000, timeout=LONG_S)
        for number in range(1000)
    ]
    assert is_asked.wait(LONG_S)
    edge.publisher("s/obs", ACTION).put(b"through", b"")
    log.wait_for(b"through")
    # Questions keep their order, so when this one is answered all others have arrived.
    assert ask_one(edge, "s/last", b"", LONG_S) == b"last"
    may_answer.set()
    answered = sum(1 for replies in waiting for _ in replies)
    assert 1 <= answered <= WAITING_QUESTIONS + 1


def test_answers_to_a_question_are_kept_up_to_a_size_in_all(network, monkeypatch):
    monkeypatch.setattr(zenoh_transport, "MOST_REPLY_BYTES", 1000)
    server, asker = network.node(), network.node()
    for name in "abc":
        server.serve(f"large/{name}", lambda _: b"x" * 900)
    server.serve("large/not", lambda _: b"y" * 50)
    network.settle()
    answers = asker.ask("large/*", b"", LONG_S)
    assert sorted(len(reply.payload) for reply in answers.replies) == [50, 900]
    assert not answers.is_complete


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
