"""Servers that drain, die, come back, forget, answer other than asked, and lose messages."""

import threading
import time
from collections import Counter

import msgspec
import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import (
    NoServer,
    Refused,
    RemoteError,
    RemotePolicy,
    ServerDraining,
    TimedOut,
    WrongModel,
    discovery,
    machine,
)
from lefleet_client.remote.connection import Connection
from lefleet_client.remote.states import Phase
from lefleet_client.transport import Closed
from lefleet_client.wire import header
from tests.client.remote.scripted import (
    STEPS,
    Once,
    answer,
    hurried,
    impatient,
    keep_asking,
    observation,
)
from tests.client.transport.waiting import LONG_S, Log, bounded, eventually


def test_the_least_loaded_replica_is_taken(any_world):
    any_world.server("a", load=0.8)
    any_world.server("b", load=0.1)
    any_world.server("b2", load=0.5)
    any_world.network.settle()
    assert any_world.robot().server == "b"


def test_robots_spread_over_equal_replicas(world):
    for name in "ab":
        world.server(name)
    taken = [world.robot(client_id=f"arm {number}").server for number in range(16)]
    assert set(taken) == {"a", "b"}


def test_a_full_replica_is_passed_over(any_world):
    rejected = wire.SessionRejected(check="capacity", reason="full", load=1.0)
    full = any_world.server("a", rejection=rejected)
    any_world.server("b", load=0.9)
    any_world.network.settle()
    assert any_world.robot().infer(observation()).server == "b"
    assert len(full.opens) == 1


def test_a_replica_that_fails_to_answer_is_passed_over(world):
    broken = world.server("a")
    broken._ack = None
    world.server("b", load=0.9)
    assert world.robot().server == "b"


def test_the_other_replica_takes_over_in_mid_request(any_world):
    first = any_world.server("a", act=lambda request: first.close())
    second = any_world.server("b", load=0.9)
    any_world.network.settle()
    policy = any_world.robot()
    assert policy.server == "a"
    chunk = policy.infer(observation(5.0))
    assert (chunk.server, chunk.model[0, 0], policy.server) == ("b", 15.0, "b")
    (lost,), (again,) = first.observations, second.observations
    assert (again.header.episode_id, again.header.client_mono_ns) == (
        lost.header.episode_id,
        lost.header.client_mono_ns,
    )
    assert again.header.seq_id > lost.header.seq_id


def test_a_new_server_under_a_new_name_takes_over(any_world):
    first = any_world.server("a")
    policy = any_world.robot()
    policy.infer(observation())
    first.close()
    second = any_world.server("b")
    assert policy.infer(observation()).server == "b"
    epochs = [first.opens[0].session_epoch, second.opens[0].session_epoch]
    assert (epochs[1] - epochs[0]) % 2**32 == 1
    assert second.opens[0].pin_digest == "d1"


def test_a_server_that_comes_back_later_is_found(world):
    first = world.server("a", act=lambda request: first.close())
    policy = world.robot(timeout_s=LONG_S)
    timer = threading.Timer(0.5, lambda: world.server("b"))
    timer.start()
    assert policy.infer(observation()).server == "b"
    timer.join()


def test_a_server_that_forgot_the_session_gets_a_new_one(any_world):
    server = any_world.server()
    policy = any_world.robot()
    policy.infer(observation())
    server.forget()
    assert policy.infer(observation(2.0)).model[0, 0] == 6.0
    assert len(server.opens) == 2


def test_a_reset_on_a_forgotten_session_leads_to_a_new_one(world):
    server = world.server()
    policy = world.robot()
    closed = wire.RESET_REPLY.encode(wire.SessionClosed(reason="there is no such session"))
    server._declared[1].close()
    server._transport.serve(server._keys.any_client.reset, lambda question: closed)
    policy.reset()
    policy.infer(observation())
    assert len(server.opens) == 2
    assert server.observations[0].header.episode_id == 1


def test_a_draining_server_still_answers_and_the_next_call_goes_elsewhere(any_world):
    def drain(request):
        server.draining = True
        request.event(wire.Draining())
        server.token.close()
        request.chunk()

    server = any_world.server("a", act=drain)
    any_world.server("b", load=0.9)
    any_world.network.settle()
    policy = any_world.robot()
    assert policy.infer(observation()).server == "a"
    assert policy.infer(observation()).server == "b"
    assert len(server.observations) == 1


def test_a_drain_whose_token_goes_first_still_answers(world):
    def drain(request):
        server.draining = True
        server.token.close()
        request.event(wire.Draining())
        threading.Timer(0.3, request.chunk).start()

    server = world.server(act=drain)
    assert world.robot().infer(observation()).server == "a"


def test_alone_with_a_draining_server(world):
    server = world.server()
    policy = world.robot()
    policy.infer(observation())
    server.draining = True
    server.tell("arm", wire.Draining())
    server.token.close()
    with hurried(policy, 1.0), pytest.raises(ServerDraining, match="a: about to stop"):
        keep_asking(policy)
    world.server("b")
    assert policy.infer(observation()).server == "b"


def test_a_session_closed_in_mid_request_is_opened_again(any_world):
    def close_once(request):
        if once:
            request.event(wire.SessionClosed(reason="the server stopped"))
        else:
            request.chunk()

    once = Once()
    server = any_world.server(act=close_once)
    any_world.robot().infer(observation())
    assert len(server.opens) == len(server.observations) == 2


def test_what_is_lost_is_sent_again_under_the_same_number(any_world):
    def lose_once(request):
        if not once:
            request.chunk()

    once = Once()
    server = any_world.server(act=lose_once)
    chunk = impatient(any_world.robot()).infer(observation(4.0))
    first, second = server.observations
    assert (chunk.seq_id, chunk.model[0, 0]) == (second.header.seq_id, 12.0)
    assert second.header == first.header
    assert len(server.opens) == 1


def test_losses_do_not_make_a_robot_too_patient_to_send_again(world):
    """Every call loses its first sending; none waits longer for that than the one before."""

    def lose_first(request):
        sendings[request.header.seq_id] += 1
        if sendings[request.header.seq_id] > 1:
            request.chunk()

    sendings = Counter()
    world.server(act=lose_first)
    policy = impatient(world.robot())
    patience = []
    for _ in range(3):
        policy.infer(observation())
        patience.append(policy._resend_s)
    assert set(sendings.values()) == {2}
    assert patience == patience[:1] * 3


def test_a_late_answer_to_the_first_sending_counts(world):
    requests = []

    def answer_the_first(request):
        requests.append(request)
        if len(requests) == 2:
            requests[0].chunk()

    server = world.server(act=answer_the_first)
    policy = impatient(world.robot())
    assert policy.infer(observation()).seq_id == server.observations[0].header.seq_id


@pytest.mark.parametrize(
    "stale",
    [
        lambda request: request.chunk(seq_id=request.header.seq_id + 100),
        lambda request: request.chunk(episode_id=request.header.episode_id + 1),
        lambda request: request.server.say(
            request.client, b"", request.header._replace(message_type=wire.MessageType.CHUNK)
        ),
        lambda request: request.event(wire.RequestFailed(seq_id=999, reason="of another")),
        lambda request: request.event(wire.Probed(seq_id=request.header.seq_id, decode_ms=1.0)),
        lambda request: request.server.say(
            request.client,
            wire.EVENT.encode(wire.SessionClosed(reason="of an earlier session")),
            request.header._replace(
                message_type=wire.MessageType.EVENT, session_epoch=request.header.session_epoch ^ 1
            ),
        ),
    ],
    ids=["seq", "episode", "garbage", "failure of another", "probe", "epoch"],
)
def test_what_belongs_to_something_else_is_ignored(world, stale):
    server = world.server(act=lambda request: (stale(request), request.chunk()))
    assert world.robot().infer(observation(2.0)).model[0, 0] == 6.0
    assert len(server.opens) == 1


def test_chunks_that_come_too_late_are_not_taken_for_new_ones(world):
    server = world.server(act=lambda request: None)
    policy = world.robot()
    with hurried(policy, 0.2), pytest.raises(TimedOut):
        policy.infer(observation(1.0))
    server.observations.wait(len)
    server.observations[0].chunk()
    server.act = answer
    np.testing.assert_array_equal(policy.infer(observation(2.0)).model, 6.0)


def test_when_the_other_replica_is_full_the_robot_waits_for_room(world):
    first = world.server("a", act=lambda request: first.close())
    policy = world.robot(timeout_s=LONG_S)
    second = world.server("b")
    second.rejection = wire.SessionRejected(check="capacity", reason="full", load=1.0)

    def make_room():
        second.opens.wait(len)
        second.rejection = None

    thread = threading.Thread(target=make_room)
    thread.start()
    assert policy.infer(observation()).server == "b"
    thread.join()


def test_when_no_room_is_made_the_error_says_why(world):
    first = world.server("a", act=lambda request: first.close())
    policy = world.robot()
    world.server("b", rejection=wire.SessionRejected(check="capacity", reason="full", load=1.0))
    with hurried(policy, 1.0), pytest.raises(Refused, match="full"):
        policy.infer(observation())


def acknowledging(server, **changes):
    """The server acknowledges sessions with these changes of the ack or its capabilities."""
    plain = server._ack
    served = {name: changes.pop(name) for name in {"model", "revision", "digest"} & changes.keys()}
    changes["capabilities"] = msgspec.structs.replace(server.capabilities, **served)
    server._ack = lambda request: msgspec.structs.replace(plain(request), **changes)
    return server


@pytest.mark.parametrize(
    "changes",
    [{"session_epoch": 1}, {"model": "other/model"}, {"revision": "v2"}, {"schema_version": 7}],
    ids=str,
)
def test_another_session_than_the_one_asked_for_is_refused(world, changes):
    (name,) = changes
    server = acknowledging(world.server(), **changes)
    with pytest.raises(NoServer, match=f"server a is faulty: {name.replace('_v', ' v')}"):
        world.robot(timeout_s=0.2)
    assert len(server.closes) == len(server.opens)


def test_another_checkpoint_than_the_pinned_one_is_refused_also_when_acknowledged(world):
    acknowledging(world.server(), digest="d2")
    with pytest.raises(WrongModel, match="serves checkpoint d2, pinned is d1"):
        world.robot(pin_digest="d1")


def test_a_replica_without_fault_is_taken(world):
    acknowledging(world.server("a"), session_epoch=1)
    world.server("b", load=0.9)
    assert world.robot().server == "b"


def test_a_chunk_of_other_columns_is_refused(world):
    other = wire.encode_tensor(np.zeros((STEPS, 7), np.float32))
    server = world.server(act=lambda request: request.chunk(chunk_model=other, chunk_robot=other))
    policy = world.robot()
    with pytest.raises(RemoteError, match=r"chunk has 7 columns, and its contract 2: shoulder.pos"):
        policy.infer(observation())
    server.act = answer
    assert policy.infer(observation()).robot.shape == (STEPS, 2)


def test_headers_are_written_in_the_version_that_was_agreed_on(world, monkeypatch):
    for module in (wire, header):
        monkeypatch.setattr(module, "OLDEST_VERSION", 0)
    server = acknowledging(world.server(), schema_version=0)
    world.robot().infer(observation())
    assert server.observations[0].header.schema_version == 0


def test_a_chunk_of_another_checkpoint_is_never_returned(any_world):
    """As from a second server under the same name, which answers too."""
    server = any_world.server(act=lambda request: (request.chunk(digest="d2"), request.chunk()))
    policy = any_world.robot()
    text = r"server a was computed by checkpoint d2, and the session is for d1; stop the other"
    with pytest.raises(WrongModel, match=text):
        policy.infer(observation())
    server.act = answer
    assert policy.infer(observation()).digest == "d1"
    first, second = server.opens
    assert (second.session_epoch - first.session_epoch) % 2**32 == 1
    assert len(server.closes) == 1


def test_a_chunk_of_another_checkpoint_that_comes_late_is_noticed_too(world):
    server = world.server(act=lambda request: (request.chunk(), request.chunk(digest="d2")))
    policy = world.robot()
    policy.infer(observation())
    server.act = answer
    with pytest.raises(WrongModel):
        keep_asking(policy)
    assert policy.infer(observation()).digest == "d1"


def flicker(server) -> None:
    """The server's token vanishes and is back, as over a network that was cut."""
    server.token.close()
    server.token = server._transport.announce(server._keys.alive)


def test_a_restarted_server_gets_a_new_session_before_anything_is_sent(any_world):
    server = any_world.server()
    policy = any_world.robot()
    policy.infer(observation())
    server.forget()
    server.instance_id = "a-2"
    flicker(server)
    eventually(lambda: policy._connection._inbox._items.qsize() >= 2)
    assert policy.infer(observation(2.0)).model[0, 0] == 6.0
    assert server.sessionless == []
    first, second = server.opens
    assert (second.session_epoch - first.session_epoch) % 2**32 == 1
    assert policy.ack.instance_id == "a-2"


def test_the_same_server_after_a_cut_keeps_its_session(any_world):
    server = any_world.server()
    policy = any_world.robot()
    policy.infer(observation())
    flicker(server)
    eventually(lambda: policy._connection._inbox._items.qsize() >= 2)
    policy.infer(observation())
    assert len(server.opens) == 1


def test_a_twin_of_the_server_is_reported(world, caplog):
    server = world.server()
    policy = world.robot()
    policy.infer(observation())
    twin = world.server()
    twin.instance_id = "a-2"
    twin.token.close()
    twin._declared[0].close()
    flicker(server)
    eventually(lambda: policy._connection._inbox._items.qsize() >= 2)
    policy.infer(observation())
    assert "two servers are named a; give each its own server_name" in caplog.text


def test_an_ack_of_another_instance_than_the_one_found_opens_nothing(world):
    server = acknowledging(world.server(), instance_id="a-2")
    with pytest.raises(NoServer, match=r"server a was restarted while .* two servers have"):
        world.robot(timeout_s=0.3)
    assert len(server.closes) == len(server.opens)
    server.instance_id = "a-2"
    assert world.robot().ack.instance_id == "a-2"


def test_messages_of_another_schema_version_are_dropped(world, monkeypatch, caplog):
    monkeypatch.setattr(header, "OLDEST_VERSION", 0)

    def close_in_another_version(request):
        event = wire.EVENT.encode(wire.SessionClosed(reason="in version 0"))
        other = request.header._replace(message_type=wire.MessageType.EVENT, schema_version=0)
        for _ in range(2):
            request.server.say(request.client, event, other)
        request.chunk()

    server = world.server(act=close_in_another_version)
    policy = world.robot()
    policy.infer(observation())
    policy.infer(observation())
    assert len(server.opens) == 1
    assert caplog.text.count("a message of schema version 0 is dropped, the session is of 1") == 1


@pytest.mark.parametrize("failing", ["publisher", "subscribe", "announce"])
def test_a_declaration_that_fails_leaves_nothing_declared(world, failing):
    """And the next call starts over."""

    def fail(*_):
        raise Closed("no more declarations")

    server = world.server("a", act=lambda request: server.close())
    policy = world.robot()
    other = world.server("b")
    node = policy._connection._transport
    works = getattr(node, failing)
    setattr(node, failing, fail)
    with pytest.raises(RemoteError, match="no more declarations"):
        policy.infer(observation())
    still_open = [one for one in node._declared if not one._is_closed]
    assert len(still_open) == 1, "only the watch of servers"
    assert not other.client_alive("arm")
    setattr(node, failing, works)
    assert policy.infer(observation()).server == "b"


def test_robots_that_wait_for_a_server_ask_ever_less_often_and_for_no_clients(world):
    server = world.server("a", act=lambda request: server.close())
    policy = world.robot()
    asked = Log()
    node = world.network.node()

    def count(question):
        asked.add(question.payload)
        return b"unreadable"

    node.serve("@lefleet/lerobot-act/main/fold/s/broken/status", count)
    with hurried(policy, 1.5), pytest.raises(NoServer):
        policy.infer(observation())
    assert 1 <= len(asked) <= 6
    assert all(not wire.STATUS_REQUEST.decode(body).with_clients for body in asked)


def test_a_server_that_comes_back_ends_a_long_backoff(any_world, monkeypatch):
    monkeypatch.setattr(machine, "FIRST_BACKOFF_S", 3 * LONG_S)
    monkeypatch.setattr(machine, "LONGEST_BACKOFF_S", 3 * LONG_S)
    server = any_world.server("a", act=lambda request: server.close())
    policy = any_world.robot(timeout_s=2 * LONG_S)

    def come_back():
        eventually(lambda: policy._connection.state.phase is Phase.BACKOFF)
        monkeypatch.setattr(machine, "FIRST_BACKOFF_S", 0.1)
        any_world.server("b")

    thread = threading.Thread(target=come_back)
    thread.start()
    assert bounded(lambda: policy.infer(observation()).server) == "b"
    thread.join()


def test_a_driver_that_only_polls_hears_that_the_server_went_away(world):
    heard = []
    spec = discovery.SessionSpec(client_id="arm", endpoints="test", service="fold")
    server = world.server()
    robot = Connection(world.network.node(), spec, ask_timeout_s=2.0, listener=heard.append)
    robot.ready(time.monotonic() + LONG_S)
    server.close()
    eventually(lambda: (robot.poll(), len(heard) == 2)[1])
    assert (heard[1].kind, heard[1].reason) == ("lost", "went away")
    robot.close()


def test_a_search_for_other_services_takes_only_the_time_that_is_left(world):
    node, timeouts = world.network.node(), []
    frozen = threading.Event()
    node.serve("@lefleet/lerobot-act/main/fold/s/frozen/status", lambda _: frozen.wait(LONG_S))
    robot = world.network.node()
    ask = robot.ask

    def count(pattern, payload, timeout_s):
        timeouts.append(timeout_s)
        return ask(pattern, payload, timeout_s)

    robot.ask = count
    with pytest.raises(NoServer):
        RemotePolicy("test", "fold", transport=robot, timeout_s=0.3, connect_timeout_s=2.0)
    frozen.set()
    assert timeouts[1] < timeouts[0] / 2


def test_a_chunk_that_came_while_the_server_was_looked_for_is_taken_at_the_deadline(world):
    server = world.server(act=lambda request: None)
    policy = impatient(world.robot())
    node = policy._connection._transport

    def look_until_the_deadline(pattern, timeout_s):
        server.observations[0].chunk()
        threading.Event().wait(2 * timeout_s)
        return frozenset({pattern})

    node.present = look_until_the_deadline
    with hurried(policy, 0.5):
        assert policy.infer(observation()).seq_id == server.observations[0].header.seq_id


def test_a_listener_hears_what_becomes_of_the_session(world):
    """Without blocking: `poll` reads the news, `step` performs one action."""
    heard = []
    spec = discovery.SessionSpec(client_id="arm", endpoints="test", service="fold")
    server = world.server("a")
    robot = Connection(world.network.node(), spec, ask_timeout_s=2.0, listener=heard.append)
    session = robot.ready(time.monotonic() + LONG_S)
    epoch = session.ack.session_epoch
    server.tell("arm", wire.Draining())
    eventually(lambda: (robot.poll(), len(heard) == 2)[1])
    world.server("b")
    server.tell("arm", wire.SessionClosed(reason="the server stopped"))
    eventually(lambda: (robot.poll(), len(heard) == 3)[1])
    assert robot.state.phase is Phase.SEARCHING
    server.close()
    while robot.state.phase is not Phase.OPEN:
        robot.step(time.monotonic() + LONG_S)
    assert [(one.kind, one.server) for one in heard] == [
        ("opened", "a"),
        ("draining", "a"),
        ("lost", "a"),
        ("opened", "b"),
    ]
    assert (heard[-1].session_epoch - epoch) % 2**32 == 1
    robot.close()
