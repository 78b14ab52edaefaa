"""Servers that drain, die, are full or come back, and the replica that takes over."""

import threading

import pytest

from lefleet_client import wire
from lefleet_client.remote import (
    Refused,
    ServerDraining,
)
from tests.client.remote.scripted import (
    hurried,
    keep_asking,
    observation,
)
from tests.client.transport.waiting import LONG_S, eventually


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
