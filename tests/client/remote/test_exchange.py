"""Sending and waiting: lost, late and stale messages, and sessions that end in mid request."""

import threading
import time
from collections import Counter

import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import RequestRejected, TimedOut, machine
from lefleet_client.remote.endpoints import Inbox, Received
from tests.client.remote.scripted import (
    Once,
    answer,
    hurried,
    impatient,
    observation,
)
from tests.client.transport.waiting import bounded


def test_a_server_that_forgot_the_session_gets_a_new_one(any_world):
    server = any_world.server()
    policy = any_world.robot()
    for _ in range(3):
        policy.infer(observation())
    policy.reset()
    server.forget()
    assert policy.infer(observation(2.0)).model[0, 0] == 6.0
    first, second = server.opens
    assert (first.episode_id, first.seq_id) == (0, 0)
    assert (second.episode_id, second.seq_id) == (1, 3)
    assert policy._connection.state.rounds == 0


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


def overtaken(request) -> None:
    reason = f"{wire.NEWER}: episode 4294967295 has begun"
    request.event(wire.RequestFailed(seq_id=request.header.seq_id, reason=reason))


def test_a_robot_behind_a_forged_number_gets_a_new_session(any_world, caplog):
    def answer_second(request):
        overtaken(request) if once else request.chunk()

    once = Once()
    server = any_world.server(act=answer_second)
    policy = any_world.robot()
    policy.reset()
    assert policy.infer(observation(2.0)).model[0, 0] == 6.0
    first, second = server.opens
    assert (second.session_epoch - first.session_epoch) % 2**32 == 1
    assert (first.episode_id, first.seq_id) == (0, 0)
    (refused, answered) = server.observations
    assert (second.episode_id, second.seq_id) == (1, refused.header.seq_id)
    assert answered.header.seq_id > refused.header.seq_id
    assert len(server.closes) == 1
    assert "newer observations under this client_id" in caplog.text


def test_a_robot_that_is_always_overtaken_fails_after_some_sessions(world):
    server = world.server(act=overtaken)
    policy = world.robot()
    with pytest.raises(RequestRejected, match="another program uses this client_id") as caught:
        policy.infer(observation())
    assert caught.value.reason.startswith(wire.NEWER)
    assert len(server.opens) == machine.MOST_OVERTAKEN + 1
    server.act = answer
    assert policy.infer(observation(2.0)).model[0, 0] == 6.0


def test_a_probe_that_is_overtaken_leads_to_a_new_session(world):
    def answer_second(request):
        overtaken(request) if once else answer(request)

    once = Once()
    server = world.server(act=answer_second)
    assert world.robot().infer(observation(2.0, image=True)).model[0, 0] == 6.0
    assert len(server.opens) == 2


def test_a_reset_behind_a_forged_episode_leads_to_a_new_session(world, caplog):
    server = world.server()
    policy = world.robot()
    newest = wire.ResetAck(session_id="a", episode_id=2**32 - 1)
    server._declared[1].close()
    forged = server._transport.serve(
        server._keys.any_client.reset, lambda question: wire.RESET_REPLY.encode(newest)
    )
    policy.reset()
    forged.close()
    assert policy.infer(observation(2.0)).model[0, 0] == 6.0
    assert [one.episode_id for one in server.opens] == [0, 1]
    assert server.observations[0].header.episode_id == 1


def test_messages_that_cannot_be_read_are_counted_in_the_error(world, caplog):
    def garbage(request):
        for _ in range(3):
            request.say(wire.MessageType.CHUNK, b"\xc1")

    world.server(act=garbage)
    policy = world.robot()
    with hurried(policy, 0.3), pytest.raises(TimedOut, match="and 3 messages under its name"):
        policy.infer(observation())
    assert caplog.text.count("a message cannot be read") == 1


class EndlessInbox(Inbox):
    """There is always one more message: a flood that comes faster than it can be read."""

    def __init__(self, header: wire.Header) -> None:
        super().__init__()
        body = wire.EVENT.encode(wire.RequestFailed(seq_id=2**63, reason="forged"))
        self._forged = header._replace(message_type=wire.MessageType.EVENT), body

    def take(self, timeout_s: float) -> Received:
        return Received(*self._forged, time.monotonic_ns())


def test_a_flood_of_messages_does_not_hold_a_call_beyond_its_time(world):
    server = world.server()
    policy = world.robot(timeout_s=0.2)
    policy.infer(observation())
    policy._connection._inbox = EndlessInbox(server.observations[0].header)

    def ask():
        with pytest.raises(TimedOut):
            policy.infer(observation())
        return True

    assert bounded(ask)


def test_messages_that_no_chunk_of_the_session_needs_are_not_kept(world, monkeypatch):
    """The inbox keeps some messages of a robot that pauses; a forged one may have megabytes."""
    sizes = []
    put = Inbox.put

    def noted(inbox, item):
        sizes.extend(len(item.payload) for item in [item] if isinstance(item, Received))
        put(inbox, item)

    def forge(request):
        for kind in wire.MessageType:
            request.say(kind, bytes(4_000_000))
        request.chunk()

    monkeypatch.setattr(Inbox, "put", noted)
    world.server(act=forge)
    world.robot().infer(observation())
    assert len(sizes) == 1
    assert sizes[0] < 1000
