"""What a connection declares and asks, how often, and what its listener hears."""

import threading
import time

import pytest

from lefleet_client import wire
from lefleet_client.remote import (
    NoServer,
    RemoteError,
    RemotePolicy,
    discovery,
    machine,
)
from lefleet_client.remote.connection import Connection
from lefleet_client.remote.states import Phase
from lefleet_client.transport import Closed
from tests.client.remote.scripted import (
    hurried,
    observation,
)
from tests.client.transport.waiting import LONG_S, Log, bounded, eventually


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
