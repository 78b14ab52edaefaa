"""What only Zenoh does: opening, losing and finding a network again, and how messages travel."""

import threading
import traceback

import pytest
import zenoh

from lefleet_client.transport import (
    ACTION,
    OBSERVATION,
    Closed,
    ZenohFailed,
    ZenohSettings,
    ZenohTransport,
    ask_one,
    zenoh_transport,
)
from lefleet_client.transport.zenoh_transport import WAITING_QUESTIONS
from tests.client.transport.networks import FREE_PORT, QUICK, endpoint_of
from tests.client.transport.waiting import LONG_S, Log, bounded, until


@pytest.mark.parametrize(
    ("qos", "reliability", "priority", "express"),
    [
        (OBSERVATION, zenoh.Reliability.BEST_EFFORT, zenoh.Priority.DATA, False),
        (ACTION, zenoh.Reliability.RELIABLE, zenoh.Priority.INTERACTIVE_HIGH, True),
    ],
)
def test_messages_are_dropped_under_congestion_and_urgent_ones_go_first(
    routed, qos, reliability, priority, express
):
    sender, receiver = routed.node(), routed.node()
    log = Log()
    receiver._session.declare_subscriber("a", log.add)
    routed.settle()
    publisher = sender.publisher("a", qos)
    publisher.put(b"", b"")
    (sample,) = log.wait(len)
    assert sample.congestion_control == zenoh.CongestionControl.DROP
    assert (sample.priority, sample.express) == (priority, express)
    assert publisher._entity.reliability == reliability


def test_a_raw_observation_arrives_whole(routed):
    sender, receiver = routed.node(), routed.node()
    body = bytes(range(256)) * 12_000
    log, heard = Log(), threading.Event()
    receiver.subscribe("a", lambda sample: (log.add(sample.payload == body), heard.set()))
    routed.settle()
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
            log, last = Log(), threading.Event()

            def deposit(sample):
                log.add(len(sample.payload))
                if len(sample.payload) == 2:
                    last.set()

            receiver.subscribe("a", deposit)
            receiver.announce("ready")
            seen = Log()
            sender.watch("ready", seen.add)
            seen.wait_for(("ready", True))
            publisher = sender.publisher("a", ACTION)
            for size in (1, 2 << 20):
                publisher.put(bytes(size), b"")
            # The link may still be busy with it, and then drops what follows.
            until(lambda: publisher.put(bytes(2), b""), last)
            assert set(log) == {1, 2}


def test_what_is_closed_is_forgotten(routed):
    node = routed.node()
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


def test_only_a_closed_session_is_called_closed(routed):
    node = routed.node()
    publisher = node.publisher("a", ACTION)
    publisher._entity.undeclare()
    with pytest.raises(ZenohFailed, match=r"^Zenoh failed: Undeclared publisher$"):
        publisher.put(b"", b"")
    node._session.close()
    with pytest.raises(Closed, match=r"^the transport is closed$"):
        node.publisher("b", ACTION)


def test_an_error_keeps_no_session_alive(routed):
    """A daemon thread could release it last, while the interpreter ends."""

    def fail(session):
        raise Closed("the program is ending")

    with pytest.raises(Closed) as caught:
        routed.node()._call(fail)
    frames = [frame for frame, _ in traceback.walk_tb(caught.tb)]
    kept = [value for frame in frames for value in frame.f_locals.values()]
    assert not any(isinstance(value, zenoh.Session) for value in kept)


def test_a_publisher_can_be_closed_while_another_thread_publishes(routed):
    """Zenoh itself cannot: it says that the publisher is borrowed, and leaves it declared."""
    node = routed.node()
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


def test_a_peer_that_watches_is_told_all_that_is_present(routed):
    """Zenoh's answer alone was empty in one of five such questions, on an idle machine."""
    robots = routed.node()
    tokens = [robots.announce(f"c/{number}/alive") for number in range(50)]
    keys = {f"c/{number}/alive" for number in range(50)}
    with ZenohTransport.open(
        ZenohSettings(mode="peer", connect=(routed.router.endpoint,))
    ) as server:
        log = Log()
        server.watch("c/*/alive", log.add)
        log.wait(lambda news: {(key, True) for key in keys} <= set(news))
        assert [server.present("c/*/alive", LONG_S) for _ in range(200)] == [keys] * 200
        tokens[0].close()
        log.wait_for(("c/0/alive", False))
        assert server.present("c/0/alive", LONG_S) == frozenset()


def test_questions_without_end_hold_up_nothing_else_on_their_link(routed):
    """One that is being answered, and a thousand that wait: samples still arrive."""
    server, edge = routed.node(), routed.node()
    is_asked, may_answer, log = threading.Event(), threading.Event(), Log()

    def answer(_question):
        is_asked.set()
        may_answer.wait(LONG_S)
        return b"here"

    server.serve("s/*/session", answer)
    server.serve("s/last", lambda question: b"last")
    server.subscribe("s/obs", lambda sample: log.add(sample.payload))
    routed.settle()
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


def test_answers_to_a_question_are_kept_up_to_a_size_in_all(routed, monkeypatch):
    monkeypatch.setattr(zenoh_transport, "MOST_REPLY_BYTES", 1000)
    server, asker = routed.node(), routed.node()
    for name in "abc":
        server.serve(f"large/{name}", lambda _: b"x" * 900)
    server.serve("large/not", lambda _: b"y" * 50)
    routed.settle()
    answers = asker.ask("large/*", b"", LONG_S)
    assert sorted(len(reply.payload) for reply in answers.replies) == [50, 900]
    assert not answers.is_complete
