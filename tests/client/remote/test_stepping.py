"""A policy in the hands of a program that must not wait: poll, connect, give up, no failover."""

import time

import pytest

from lefleet_client import wire
from lefleet_client.remote import NoServer, RemoteError, SessionLost, TimedOut
from tests.client.remote.scripted import Once, observation
from tests.client.transport.waiting import eventually


def test_poll_tells_the_listener_and_the_policy_that_the_server_went_away(any_world):
    heard = []
    server = any_world.server()
    policy = any_world.robot()
    policy.listen(heard.append)
    policy.poll()
    assert policy.is_connected
    server.close()
    eventually(lambda: (policy.poll(), heard)[1])
    assert [(one.kind, one.server, one.reason) for one in heard] == [("lost", "a", "went away")]
    assert not policy.is_connected


def test_poll_does_not_wait(world):
    world.server()
    policy = world.robot()
    began_s = time.monotonic()
    for _ in range(100):
        policy.poll()
    assert time.monotonic() - began_s < 1.0


def test_a_draining_server_is_not_connected_and_connect_leaves_it(world):
    first = world.server("a")
    policy = world.robot()
    world.server("b")
    first.draining = True
    first.tell("arm", wire.Draining())
    eventually(lambda: (policy.poll(), not policy.is_connected)[1])
    policy.connect(5.0)
    assert (policy.is_connected, policy.server) == (True, "b")


def test_connect_opens_nothing_while_there_is_a_session(world):
    server = world.server()
    policy = world.robot()
    policy.connect(5.0)
    assert len(server.opens) == 1


def test_connect_says_in_time_why_there_is_no_session(world):
    server = world.server()
    policy = world.robot()
    server.close()
    eventually(lambda: (policy.poll(), not policy.is_connected)[1])
    began_s = time.monotonic()
    with pytest.raises(NoServer):
        policy.connect(0.2)
    assert time.monotonic() - began_s < 1.0
    world.server("b")
    policy.connect(5.0)
    assert policy.server == "b"


def test_giving_up_closes_the_session_and_prefers_another_server(any_world):
    first = any_world.server("a")
    policy = any_world.robot()
    any_world.server("b", load=0.9)
    any_world.network.settle()
    policy.give_up()
    assert not policy.is_connected
    policy.connect(10.0)
    assert policy.server == "b"
    assert [one.client_id for one in first.closes] == ["arm"]


def test_without_failover_a_lost_session_ends_the_call(world):
    def close_once(request):
        if once:
            request.event(wire.SessionClosed(reason="the server stopped"))
        else:
            request.chunk()

    once = Once()
    server = world.server(act=close_once)
    policy = world.robot()
    with pytest.raises(SessionLost, match="the session on server a ended before a chunk came"):
        policy.infer(observation(), failover=False)
    assert len(server.opens) == len(server.observations) == 1
    with pytest.raises(SessionLost):
        policy.infer(observation(), failover=False)
    policy.connect(5.0)
    assert policy.infer(observation(), failover=False).server == "a"


def test_without_failover_nothing_is_sent_in_a_session_that_the_call_opened(world):
    """A restart is noticed by a check within the call, which then finds another server."""
    server = world.server("a")
    policy = world.robot()
    server.token.close()
    eventually(lambda: (policy._connection.receive(0.0), policy._connection.state.gone_since_s)[1])
    server.instance_id = "a-2"
    server.token = server._transport.announce(server._keys.alive)
    connection = policy._connection
    eventually(lambda: connection._inbox.size)
    with pytest.raises(SessionLost):
        policy.infer(observation(), failover=False)
    assert len(server.observations) == 0


def test_a_call_may_have_a_time_out_of_its_own(world):
    world.server(act=lambda request: None)
    policy = world.robot(timeout_s=20.0)
    began_s = time.monotonic()
    with pytest.raises(TimedOut, match=r"within 0\.2 s"):
        policy.infer(observation(), timeout_s=0.2)
    assert time.monotonic() - began_s < 2.0


def test_the_number_of_the_episode_is_the_servers(world):
    server = world.server()
    policy = world.robot()
    assert policy.episode_id == 0
    policy.reset()
    policy.infer(observation())
    assert policy.episode_id == server.observations[0].header.episode_id == 1


def test_a_closed_policy_neither_polls_nor_connects(world):
    world.server()
    policy = world.robot()
    policy.close()
    for call in (policy.poll, policy.give_up, lambda: policy.connect(1.0)):
        with pytest.raises(RemoteError, match="closed"):
            call()
