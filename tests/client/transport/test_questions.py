"""Questions and their answers: the same tests for memory and for Zenoh."""

import threading

import pytest

from lefleet_client.transport import (
    AnswerFailed,
    NoAnswer,
    ask_one,
)
from lefleet_client.wire import ServiceKeys, matching_servers
from tests.client.transport.waiting import LONG_S, SHORT_S, Log, bounded


def test_a_question_is_answered(network, pair):
    edge, server = pair
    server.serve("a/session", lambda question: question.key.encode() + b":" + question.payload)
    network.settle()
    assert ask_one(edge, "a/session", b"hello", LONG_S) == b"a/session:hello"
    assert ask_one(edge, "a/session", b"", LONG_S) == b"a/session:"


def test_every_replica_answers_under_its_own_key(network):
    edge, *servers = [network.node() for _ in range(4)]
    keys = ServiceKeys("m", "r", "x")
    everywhere = matching_servers("m", "r", "x").status
    for name, server in zip("xyz", servers, strict=True):
        server.serve(keys.server(name).status, lambda question, name=name: name.encode())
    network.settle()
    answers = edge.ask(everywhere, b"", LONG_S)
    found = {(reply.key, reply.payload) for reply in answers.replies}
    assert found == {(keys.server(name).status, name.encode()) for name in "xyz"}
    assert answers.is_complete


def test_two_who_serve_the_same_key_are_both_heard(network):
    edge, *servers = [network.node() for _ in range(3)]
    for name, server in zip((b"x", b"y"), servers, strict=True):
        server.serve("a", lambda question, name=name: name)
    network.settle()
    assert sorted(reply.payload for reply in edge.ask("a", b"", LONG_S).replies) == [b"x", b"y"]


def test_one_service_for_all_clients_learns_who_asks(network, pair):
    edge, server = pair
    server.serve("a/c/*/reset", lambda question: question.key.encode())
    network.settle()
    assert ask_one(edge, "a/c/arm/reset", b"", LONG_S) == b"a/c/arm/reset"


def test_a_pattern_asked_of_a_pattern_has_no_answer(network, pair):
    edge, server = pair
    server.serve("a/*", lambda question: b"x")
    network.settle()
    assert edge.ask("*/b", b"", LONG_S).replies == ()


def test_when_no_node_serves_it_the_question_ends_at_once(network, pair):
    network.settle()
    answers = pair[0].ask("a/b", b"", LONG_S)
    assert (answers.replies, answers.is_complete) == ((), True)
    with pytest.raises(NoAnswer, match="a/b: no node serves it"):
        ask_one(pair[0], "a/b", b"", LONG_S)


def test_a_question_ends_at_its_time_out(network, pair):
    edge, server = pair
    release, asked = threading.Event(), threading.Event()

    def hang(question):
        asked.set()
        release.wait(LONG_S)
        return b"late"

    server.serve("a/slow", hang)
    server.serve("a/fast", lambda question: b"soon")
    network.settle()
    try:
        with pytest.raises(NoAnswer, match=r"a/slow: no answer within 0\.2 s"):
            bounded_raising(lambda: ask_one(edge, "a/slow", b"", SHORT_S))
        assert asked.is_set()
        answers = bounded(lambda: edge.ask("a/*", b"", SHORT_S))
        assert [reply.payload for reply in answers.replies] == [b"soon"]
        assert not answers.is_complete
    finally:
        release.set()


def bounded_raising(call):
    """`bounded` for a call that raises."""

    def outcome():
        try:
            return call(), None
        except NoAnswer as error:
            return None, error

    result, error = bounded(outcome)
    if error:
        raise error
    return result


def test_an_answer_that_fails_is_reported_without_the_reason(network, pair, caplog):
    edge, server = pair

    def answer(question):
        raise RuntimeError("secret path")

    server.serve("a/bad", answer)
    server.serve("a/good", lambda question: b"fine")
    network.settle()
    with pytest.raises(AnswerFailed) as caught:
        ask_one(edge, "a/bad", b"", LONG_S)
    assert "secret" not in str(caught.value)
    assert "secret path" in caplog.text
    answers = edge.ask("a/*", b"", LONG_S)
    assert [reply.payload for reply in answers.replies] == [b"fine"]
    assert (answers.failures, answers.is_complete) == (1, True)


def test_a_closed_service_is_not_asked(network, pair):
    edge, server = pair
    server.serve("a", lambda question: b"x").close()
    network.settle()
    with pytest.raises(NoAnswer, match="no node serves it"):
        ask_one(edge, "a", b"", LONG_S)


def test_many_threads_may_ask(network, pair):
    edge, server = pair
    server.serve("a", lambda question: question.payload)
    network.settle()
    log = Log()
    threads = [
        threading.Thread(target=lambda i=i: log.add(ask_one(edge, "a", b"%d" % i, LONG_S)))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    answers = log.wait(lambda items: len(items) == 8)
    for thread in threads:
        thread.join(LONG_S)
    assert sorted(answers) == [b"%d" % i for i in range(8)]
