"""Servers that go away, hang, drain, refuse, or come back with something else."""

import time

import msgspec
import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import NoServer, TimedOut
from lefleet_client.transport import Closed
from tests.client.remote.scripted import CONTRACT, STATE
from tests.client.stream.driving import WITHOUT_CAMERAS, Holding, serves, tell
from tests.client.transport.waiting import eventually


def streaming(world, **options):
    loop = world.loop(**options)
    loop.tick_until(loop.is_in("streaming"))
    return loop


def mute(request) -> None:
    """A server that opens sessions and answers nothing."""


def servers_of(loop) -> str:
    return loop.stream.executed.origin.server if loop.stream.executed.origin else ""


def test_a_server_that_does_not_answer_is_found_before_the_robot_moves(world):
    world.server(act=mute)
    policy = world.robot()
    began_s = time.monotonic()
    with pytest.raises(TimedOut, match=r"within 0\.3 s"):
        world.loop(policy, request_timeout_s=0.3)
    assert time.monotonic() - began_s < 2.0


def test_without_a_server_there_is_no_policy(world):
    with pytest.raises(NoServer):
        world.robot(timeout_s=0.2)


def test_settings_that_cannot_work_are_refused_before_the_robot_moves(world):
    world.server()
    with pytest.raises(ValueError, match=r"max_action_age_s: 0\.1 s would stop"):
        world.loop(max_action_age_s=0.1)


def test_a_killed_server_is_replaced_by_another_and_counted_once(world):
    first = world.server("a")
    loop = streaming(world)
    world.server("b")
    first.close()
    loop.tick_until(lambda: servers_of(loop) == "b")
    assert loop.mode == "streaming"
    assert (loop.state.reconnects, loop.deaths) == (1, 0)


def test_the_queue_is_executed_while_another_server_is_found(world):
    first = world.server("a", served=serves(chunk_size=200, n_action_steps=200))
    loop = streaming(world)
    first.close()
    eventually(loop.is_in("reconnecting"))
    executed = loop.stream.status().executed
    loop.tick(20)
    assert loop.stream.status().executed == executed + 20
    assert loop.stream.status().fallbacks == 0


def test_a_restarted_server_gets_the_robot_back(world):
    first = world.server("a")
    loop = streaming(world)
    first.close()
    loop.tick_until(loop.is_in("reconnecting"))
    loop.tick_until(lambda: loop.stream.status().fallbacks > 3)
    again = world.server("a")
    again.instance_id = "a-2"
    loop.tick_until(loop.is_in("streaming"))
    assert loop.state.reconnects == 1


def test_a_draining_server_answers_what_is_in_flight_and_is_left_once(world):
    first = world.server("a", act=(hold := Holding()))
    loop = world.loop()
    loop.tick()
    eventually(lambda: hold.held)
    world.server("b")
    first.draining = True
    first.tell("arm", wire.Draining())
    hold.answer()
    loop.tick_until(lambda: servers_of(loop) == "b")
    assert loop.state.reconnects == 1
    assert loop.stream.status().fallbacks == 0
    assert [one.session_id for one in first.closes] == []


def test_a_hung_server_is_given_up_for_another(world):
    """Its token is there, and its sessions can be opened: only requests tell."""
    first = world.server("a", act=(hold := Holding()), load=0.0)
    loop = world.loop(request_timeout_s=0.4)
    loop.tick()
    hold.answer()
    world.server("b", load=0.9)
    loop.tick_until(lambda: servers_of(loop) == "b")
    assert len(hold.seen) == 3, "one was answered, two in a row were not"
    assert [one.client_id for one in first.closes] == ["arm"]
    assert loop.state.reconnects == 1


def test_a_late_request_degrades_and_a_late_answer_recovers(world):
    world.server(act=(hold := Holding()), served=serves(chunk_size=100, n_action_steps=100))
    loop = world.loop(degraded_after_s=0.2, buffer_time_s=1.9)
    loop.tick()
    hold.answer()
    loop.settle()
    loop.tick_until(loop.is_in("degraded"))
    assert loop.executed[-1] is not None
    assert loop.state.reason == "no answer for 0.2 s"
    hold.answer()
    loop.tick_until(loop.is_in("streaming"))
    assert loop.state.reconnects == 0


def test_a_server_that_never_answers_again_ends_in_dead(world):
    first = world.server("a", act=Holding(at_once=5))
    loop = world.loop(max_offline_s=1.5, request_timeout_s=0.3)
    loop.tick()
    loop.settle()
    began_s = time.monotonic()
    loop.tick_until(lambda: loop.stream.is_dead)
    assert 1.5 <= time.monotonic() - began_s < 4.0
    assert len(first.opens) > 1, "it opened session after session"
    assert loop.deaths == 1
    assert "no chunk for 1.5 s: " in loop.state.reason


def test_no_server_at_all_ends_in_dead(world):
    first = world.server("a")
    loop = streaming(world, max_offline_s=0.8)
    first.close()
    loop.tick_until(lambda: loop.stream.is_dead)
    assert "no chunk for 0.8 s" in loop.state.reason


CHANGES = {
    "contract": {
        "contract": msgspec.structs.replace(
            WITHOUT_CAMERAS, action_names=tuple(reversed(CONTRACT.action_names))
        )
    },
    "supports_rtc": {"supports_rtc": True},
    "rtc_horizon": {"rtc_horizon": 5},
    "chunk_size": {"chunk_size": 30},
    "n_obs_steps": {"n_obs_steps": 2},
}


@pytest.mark.parametrize("changed", CHANGES)
def test_a_server_that_promises_something_else_ends_in_dead(world, changed):
    """The same digest, so that the client's own binding does not notice."""
    first = world.server("a")
    loop = streaming(world)
    executed = loop.stream.executed.origin
    first.close()
    other = world.server("b", served=serves(**CHANGES[changed]))
    loop.tick_until(lambda: loop.stream.is_dead)
    assert loop.state.reason == f"server b has another {changed} now"
    assert len(other.observations) == 0
    assert executed.server == "a"
    loop.tick(5)
    assert loop.stream.executed.origin is None


def test_another_checkpoint_ends_in_dead_and_none_of_its_actions_is_executed(world):
    first = world.server("a", digest="d1")
    loop = streaming(world)
    first.close()
    other = world.server("a", served=serves(digest="d2"))
    loop.tick_until(lambda: loop.stream.is_dead)
    assert "d2" in loop.state.reason
    assert len(other.observations) == len(other.opens) == 0


def test_a_chunk_of_another_checkpoint_ends_in_dead(world):
    world.server(act=(hold := Holding()))
    loop = world.loop()
    loop.tick()
    hold.answer(digest="d2")
    eventually(lambda: loop.stream.is_dead)
    assert "was computed by checkpoint d2" in loop.state.reason
    loop.tick()
    assert loop.stream.status().executed == 0


def test_a_session_that_is_replaced_ends_in_dead(world):
    server = world.server()
    loop = streaming(world)
    server.tell("arm", wire.SessionClosed(reason="replaced by a newer session"))
    loop.tick_until(lambda: loop.stream.is_dead)
    assert "client_id" in loop.state.reason
    assert len(server.opens) == 1


@pytest.mark.parametrize(("check", "is_final"), [("action_names", True), ("capacity", False)])
def test_a_refusal_is_final_unless_there_is_no_room(world, check, is_final):
    server = world.server()
    loop = streaming(world)
    server.rejection = wire.SessionRejected(check=check, reason="no")
    server.tell("arm", wire.SessionClosed(reason="the server forgot"))
    if is_final:
        loop.tick_until(lambda: loop.stream.is_dead)
        return
    loop.tick_until(lambda: len(server.opens) > 2 and loop.mode == "reconnecting")
    server.rejection = None
    loop.tick_until(loop.is_in("streaming"))
    assert loop.deaths == 0


def test_requests_that_are_rejected_lead_to_another_server(world):
    def reject(request):
        if next(answers, False):
            tell(request)
        else:
            request.event(wire.RequestFailed(seq_id=request.header.seq_id, reason="no memory"))

    answers = iter([True] * 5)
    world.server("a", act=reject)
    loop = world.loop()
    loop.tick()
    world.server("b", load=0.9)
    loop.tick_until(lambda: servers_of(loop) == "b")


def test_an_observation_that_cannot_be_sent_does_not_blame_the_server(world):
    def convert(seen):
        return {STATE: seen[STATE] if is_well[0] else np.zeros((2, 2))}

    is_well = [True]
    server = world.server()
    loop = streaming(world, convert=convert)
    is_well[0] = False
    loop.tick_until(loop.is_in("reconnecting"))
    assert "2 requests in a row: observation.state" in loop.state.reason
    is_well[0] = True
    loop.tick_until(loop.is_in("streaming"))
    assert (len(server.opens), len(server.closes)) == (1, 0)


def test_a_worker_that_fails_ends_in_dead_with_the_cause(world):
    def convert(seen):
        raise KeyError("shoulder.pos")

    world.server()
    loop = world.loop(convert=convert)
    loop.tick_until(lambda: loop.stream.is_dead)
    assert loop.state.reason == "the edge worker failed: KeyError('shoulder.pos')"
    assert loop.deaths == 1


def test_a_transport_that_fails_at_once_is_not_asked_without_a_pause(world):
    world.server()
    policy = world.robot()
    loop = streaming(world, policy=policy)
    calls = []

    def fail(*_):
        calls.append(time.monotonic())
        raise Closed("the network is down")

    policy.node.ask = policy.node.publisher = fail
    policy._connection._endpoints._publisher.put = fail
    loop.tick_until(loop.is_in("reconnecting"))
    time.sleep(0.5)
    assert 1 < len(calls) < 20
