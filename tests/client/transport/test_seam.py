"""What every transport does: the same tests for memory and for Zenoh."""

import threading
import time

import pytest

from lefleet_client.transport import (
    ACTION,
    OBSERVATION,
    BadExpression,
    Closed,
    NoAnswer,
    Sample,
    ask_one,
    is_gone,
)
from lefleet_client.wire import ServiceKeys
from tests.client.transport.waiting import LONG_S, SHORT_S, Log, bounded, until


def test_a_publication_arrives_with_key_payload_and_attachment(network, pair):
    edge, server = pair
    log = Log()
    server.subscribe("a/b", log.add)
    network.settle()
    edge.publisher("a/b", OBSERVATION).put(b"body", b"head")
    assert log.wait(len) == [Sample("a/b", b"body", b"head")]


def test_an_empty_payload_and_attachment_arrive_empty(network, pair):
    edge, server = pair
    log = Log()
    server.subscribe("a", log.add)
    network.settle()
    edge.publisher("a", ACTION).put(b"", b"")
    assert log.wait(len) == [Sample("a", b"", b"")]


def test_a_large_payload_arrives_whole(network, pair):
    edge, server = pair
    log, body = Log(), bytes(range(256)) * 4096
    server.subscribe("a", log.add)
    network.settle()
    edge.publisher("a", OBSERVATION).put(body, b"head")
    (sample,) = log.wait(len)
    assert (sample.size, sample) == (len(body), Sample("a", body, b"head"))


def test_a_payload_is_copied_when_it_is_read_and_only_once():
    class Foreign:
        copies = 0

        def __len__(self) -> int:
            return 4

        def to_bytes(self) -> bytes:
            self.copies += 1
            return b"body"

    foreign = Foreign()
    sample = Sample("a", foreign, b"")
    assert (sample.size, foreign.copies) == (4, 0)
    assert (sample.payload, sample.payload, foreign.copies) == (b"body", b"body", 1)


def test_a_publication_without_a_subscriber_is_no_error(pair):
    pair[0].publisher("a/b", ACTION).put(b"body", b"head")


def test_publications_keep_their_order(network, pair):
    """A busy network may drop some, so the last is repeated until it is there."""
    edge, server = pair
    log, last = Log(), threading.Event()

    def deposit(sample):
        log.add(int(sample.payload))
        if sample.payload == b"100":
            last.set()

    server.subscribe("a", deposit)
    network.settle()
    publisher = edge.publisher("a", ACTION)
    for number in range(100):
        publisher.put(str(number).encode(), b"")
    until(lambda: publisher.put(b"100", b""), last)
    received = list(log)
    assert received[0] == 0
    assert received == sorted(received)


def test_a_pattern_hears_every_client_one_level_deep(network, pair):
    edge, server = pair
    keys = ServiceKeys("m", "r", "x").server("a")
    log = Log()
    server.subscribe(keys.any_client.obs, lambda sample: log.add(sample.key))
    network.settle()
    one, two = keys.client("one").obs, keys.client("two").obs
    for key in ("test/obs", keys.status, f"{one}/deeper", keys.client("one").reset, one, two):
        edge.publisher(key, ACTION).put(b"", b"")
    assert log.wait_for(two) == [one, two]


def test_the_wildcard_of_another_program_does_not_hear_the_tree(network, pair):
    edge, other = pair
    log = Log()
    other.subscribe("**", lambda sample: log.add(sample.key))
    network.settle()
    edge.publisher(ServiceKeys("m", "r", "x").server("a").client("b").obs, ACTION).put(b"", b"")
    edge.publisher("open/place", ACTION).put(b"", b"")
    assert "open/place" in log.wait_for("open/place")
    assert not any(key.startswith("@") for key in log)


def test_a_callback_that_raises_harms_only_itself(network, pair, caplog):
    edge, server = pair
    log = Log()

    def deposit(sample):
        if sample.payload == b"bad":
            raise RuntimeError("oops")
        log.add(sample.payload)

    server.subscribe("a", deposit)
    network.settle()
    publisher = edge.publisher("a", ACTION)
    for payload in (b"bad", b"good"):
        publisher.put(payload, b"")
    assert log.wait(len) == [b"good"]
    assert "oops" in caplog.text


def test_a_declaration_is_called_once_at_a_time(network, pair):
    edge, server = pair
    busy, log, enough = threading.Lock(), Log(), threading.Event()

    def deposit(sample):
        is_alone = busy.acquire(blocking=False)
        time.sleep(0.002)  # Long enough for another thread to come in.
        log.add(is_alone)
        busy.release()
        if len(log) >= 30:
            enough.set()

    server.subscribe("a/*", deposit)
    network.settle()
    publishers = [node.publisher(f"a/{i}", ACTION) for i, node in enumerate((edge, server, edge))]
    until(lambda: [publisher.put(b"", b"") for _ in range(4) for publisher in publishers], enough)
    assert all(log)


def test_a_closed_subscription_hears_nothing_more(network, pair):
    edge, server = pair
    closed, witness = Log(), Log()
    subscription = server.subscribe("a", closed.add)
    server.subscribe("a", witness.add)
    network.settle()
    subscription.close()
    subscription.close()
    edge.publisher("a", ACTION).put(b"x", b"")
    witness.wait(len)
    assert closed == []


def test_presence_is_seen_before_and_after_and_its_end_too(network, pair):
    edge, server = pair
    first = server.announce("a/s/1/alive")
    network.settle()
    log = Log()
    edge.watch("a/s/*/alive", log.add)
    log.wait_for(("a/s/1/alive", True))
    second = server.announce("a/s/2/alive")
    log.wait_for(("a/s/2/alive", True))
    assert edge.present("a/s/*/alive", LONG_S) == {"a/s/1/alive", "a/s/2/alive"}
    first.close()
    log.wait_for(("a/s/1/alive", False))
    assert edge.present("a/s/*/alive", LONG_S) == {"a/s/2/alive"}
    second.close()
    log.wait_for(("a/s/2/alive", False))
    assert edge.present("a/s/*/alive", LONG_S) == frozenset()


def test_a_node_that_closes_is_gone(network, pair):
    edge, server = pair
    server.announce("a/alive")
    server.serve("a/status", lambda question: b"")
    log = Log()
    edge.watch("a/alive", log.add)
    log.wait_for(("a/alive", True))
    bounded(server.close)
    log.wait_for(("a/alive", False))
    with pytest.raises(NoAnswer):
        ask_one(edge, "a/status", b"", SHORT_S)


def test_a_closed_watch_sees_nothing_more(network, pair):
    edge, server = pair
    closed, witness = Log(), Log()
    edge.watch("a", closed.add).close()
    edge.watch("a", witness.add)
    server.announce("a")
    witness.wait_for(("a", True))
    assert closed == []


def test_after_closing_everything_is_a_typed_error(pair):
    node, _ = pair
    publisher = node.publisher("a", ACTION)
    bounded(node.close)
    bounded(node.close)
    for call in (
        lambda: publisher.put(b"", b""),
        lambda: node.publisher("a", ACTION),
        lambda: node.subscribe("a", print),
        lambda: node.serve("a", lambda question: b""),
        lambda: node.ask("a", b"", SHORT_S),
        lambda: node.announce("a"),
        lambda: node.watch("a", print),
        lambda: node.present("a", SHORT_S),
    ):
        with pytest.raises(Closed):
            call()


@pytest.mark.parametrize("bad", ["", "/a", "a//b", "a/", "a/**/**", "a/$b", "a#b"])
def test_what_is_no_key_expression_is_refused(pair, bad):
    node, _ = pair
    for call in (
        lambda: node.publisher(bad, ACTION),
        lambda: node.subscribe(bad, print),
        lambda: node.serve(bad, lambda question: b""),
        lambda: node.ask(bad, b"", SHORT_S),
        lambda: node.announce(bad),
        lambda: node.watch(bad, print),
        lambda: node.present(bad, SHORT_S),
    ):
        with pytest.raises(BadExpression):
            call()


def test_one_publishes_and_announces_under_one_key(pair):
    for declare in (lambda: pair[0].publisher("a/*", ACTION), lambda: pair[0].announce("a/**")):
        with pytest.raises(BadExpression, match="pattern"):
            declare()


def test_a_callback_may_close_what_calls_it(network, pair):
    edge, server = pair
    done, declared = Log(), []

    def deposit(sample):
        declared[0].close()
        done.add(sample.payload)

    declared.append(server.subscribe("a", deposit))
    network.settle()
    edge.publisher("a", ACTION).put(b"x", b"")
    assert done.wait(len) == [b"x"]


def test_a_callback_may_publish_and_ask(network, pair):
    edge, server = pair
    log = Log()
    edge.serve("back", lambda question: b"pong")
    edge.subscribe("echo", lambda sample: log.add(sample.payload))
    echo = server.publisher("echo", ACTION)
    server.subscribe("a", lambda sample: echo.put(ask_one(server, "back", b"", LONG_S), b""))
    network.settle()
    edge.publisher("a", ACTION).put(b"", b"")
    assert log.wait(len) == [b"pong"]


def test_a_key_is_gone_only_after_two_empty_answers():
    class Forgetful:
        """Its answers, in order."""

        def __init__(self, *answers):
            self._answers = list(answers)

        def present(self, pattern, timeout_s):
            return self._answers.pop(0)

    present, absent = frozenset({"a"}), frozenset()
    assert not is_gone(Forgetful(present), "a", 1.0)
    assert not is_gone(Forgetful(absent, present), "a", 1.0)
    assert is_gone(Forgetful(absent, absent), "a", 1.0)
