"""Which servers are found, under which names."""

import pytest

from lefleet_client.remote import discover
from tests.client.remote.scripted import CONTRACT
from tests.client.transport.waiting import LONG_S


@pytest.fixture
def servers(any_world):
    found = [
        any_world.server("b"),
        any_world.server("a"),
        any_world.server("d", service="pick up", model="lerobot/pi0"),
    ]
    any_world.network.settle()
    return found


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({}, ["a", "b", "d"]),
        ({"service": "fold"}, ["a", "b"]),
        ({"service": "pick up"}, ["d"]),
        ({"service": "pick-up"}, ["d"]),
        ({"service": "pick/up"}, []),
        ({"model": "lerobot/act"}, ["a", "b"]),
        ({"model": "lerobot/act", "service": "pick up"}, []),
        ({"revision": "main"}, ["a", "b", "d"]),
        ({"revision": "v2"}, []),
    ],
    ids=str,
)
def test_replicas_are_found_by_any_of_their_names(any_world, servers, names, found):
    node = any_world.network.node()
    any_world.network.settle()
    statuses = discover(node, **names, timeout_s=LONG_S)
    assert [status.server for status in statuses] == found
    assert all(status.capabilities.contract == CONTRACT for status in statuses)


def test_a_status_that_cannot_be_read_hides_no_other(world, caplog):
    world.server()
    node = world.network.node()
    node.serve("@lefleet/m/r/fold/s/broken/status", lambda question: b"\xc1")
    assert [status.server for status in discover(node, timeout_s=LONG_S)] == ["a"]
    assert "s/broken/status" in caplog.text
