"""Servers that drain, die, come back, forget, and lose messages."""

import threading
from collections import Counter

import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import Refused, ServerDraining, TimedOut
from tests.client.remote.scripted import Once, answer, hurried, keep_asking, observation
from tests.client.transport.waiting import LONG_S


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
    first = any_world.server("a", act=lambda mail: first.close())
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
    first = world.server("a", act=lambda mail: first.close())
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
    def drain(mail):
        server.draining = True
        mail.event(wire.Draining())
        server.token.close()
        mail.chunk()

    server = any_world.server("a", act=drain)
    any_world.server("b", load=0.9)
    any_world.network.settle()
    policy = any_world.robot()
    assert policy.infer(observation()).server == "a"
    assert policy.infer(observation()).server == "b"
    assert len(server.observations) == 1


def test_a_drain_whose_token_goes_first_still_answers(world):
    def drain(mail):
        server.draining = True
        server.token.close()
        mail.event(wire.Draining())
        threading.Timer(0.3, mail.chunk).start()

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
    def close_once(mail):
        if once:
            mail.event(wire.SessionClosed(reason="the server stopped"))
        else:
            mail.chunk()

    once = Once()
    server = any_world.server(act=close_once)
    any_world.robot().infer(observation())
    assert len(server.opens) == len(server.observations) == 2


def test_what_is_lost_is_sent_again_under_the_same_number(any_world):
    def lose_once(mail):
        if not once:
            mail.chunk()

    once = Once()
    server = any_world.server(act=lose_once)
    chunk = any_world.robot().infer(observation(4.0))
    first, second = server.observations
    assert (chunk.seq_id, chunk.model[0, 0]) == (second.header.seq_id, 12.0)
    assert second.header == first.header
    assert len(server.opens) == 1


def test_losses_do_not_make_a_robot_too_patient_to_send_again(world):
    """Every call loses its first sending; none waits longer for that than the one before."""

    def lose_first(mail):
        sendings[mail.header.seq_id] += 1
        if sendings[mail.header.seq_id] > 1:
            mail.chunk()

    sendings = Counter()
    world.server(act=lose_first)
    policy = world.robot()
    patience = []
    for _ in range(3):
        policy.infer(observation())
        patience.append(policy._resend_s)
    assert set(sendings.values()) == {2}
    assert patience == patience[:1] * 3


def test_a_late_answer_to_the_first_sending_counts(world):
    mails = []

    def answer_the_first(mail):
        mails.append(mail)
        if len(mails) == 2:
            mails[0].chunk()

    server = world.server(act=answer_the_first)
    assert world.robot().infer(observation()).seq_id == server.observations[0].header.seq_id


@pytest.mark.parametrize(
    "stale",
    [
        lambda mail: mail.chunk(seq_id=mail.header.seq_id + 100),
        lambda mail: mail.chunk(episode_id=mail.header.episode_id + 1),
        lambda mail: mail.server.say(
            mail.client, b"", mail.header._replace(message_type=wire.MessageType.CHUNK)
        ),
        lambda mail: mail.event(wire.RequestFailed(seq_id=999, reason="of another")),
        lambda mail: mail.event(wire.Probed(seq_id=mail.header.seq_id, decode_ms=1.0)),
        lambda mail: mail.server.say(
            mail.client,
            wire.EVENT.encode(wire.SessionClosed(reason="of an earlier session")),
            mail.header._replace(
                message_type=wire.MessageType.EVENT, session_epoch=mail.header.session_epoch ^ 1
            ),
        ),
    ],
    ids=["seq", "episode", "garbage", "failure of another", "probe", "epoch"],
)
def test_what_belongs_to_something_else_is_ignored(world, stale):
    server = world.server(act=lambda mail: (stale(mail), mail.chunk()))
    assert world.robot().infer(observation(2.0)).model[0, 0] == 6.0
    assert len(server.opens) == 1


def test_chunks_that_come_too_late_are_not_taken_for_new_ones(world):
    server = world.server(act=lambda mail: None)
    policy = world.robot()
    with hurried(policy, 0.2), pytest.raises(TimedOut):
        policy.infer(observation(1.0))
    server.observations.wait(len)
    server.observations[0].chunk()
    server.act = answer
    np.testing.assert_array_equal(policy.infer(observation(2.0)).model, 6.0)


def test_when_the_other_replica_is_full_the_robot_waits_for_room(world):
    first = world.server("a", act=lambda mail: first.close())
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


def test_when_no_room_is_made_the_robot_is_told_why(world):
    first = world.server("a", act=lambda mail: first.close())
    policy = world.robot()
    world.server("b", rejection=wire.SessionRejected(check="capacity", reason="full", load=1.0))
    with hurried(policy, 1.0), pytest.raises(Refused, match="full"):
        policy.infer(observation())
