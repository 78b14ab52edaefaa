"""Which servers are found, under which names."""

import msgspec
import pytest

from lefleet_client import wire
from lefleet_client.remote import NoServer, discover
from lefleet_client.remote.discovery import ask_statuses
from lefleet_client.testing import MemoryNetwork, MemoryTransport
from lefleet_client.transport import Answers, Reply
from tests.client.remote.scripted import CONTRACT, observation, server_status
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


def lie(node, changes, key="@lefleet/lerobot-act/main/fold/s/liar/status"):
    """A node that answers under this key with a status of these changes."""
    status = server_status("liar")
    for path, value in changes.items():
        status = changed(status, path.split("."), value)
    node.serve(key, lambda question: wire.STATUS.encode(status))


def changed(record, path, value):
    name, *rest = path
    inner = changed(getattr(record, name), rest, value) if rest else value
    return msgspec.structs.replace(record, **{name: inner})


LIES = {
    "another server": {"server": "a"},
    "another service": {"service": "pick"},
    "another model": {"capabilities.model": "lerobot/pi0"},
    "another revision": {"capabilities.revision": "v2"},
    "empty slug": {"server": "///"},
    "reserved word": {"capabilities.model": "status"},
    "long name": {"service": "x" * 256},
    "control characters": {"instance_id": "a\x1b[2J"},
    "control characters in the digest": {"capabilities.digest": "\n"},
    "control characters in a column": {"capabilities.contract.action_names": ("a\n", "b")},
    "cameras without three channels": {
        "capabilities.contract.cameras": {"observation.images.top": (24, 32, 4)}
    },
    "pixels that fit into no observation": {
        "capabilities.contract.cameras": {f"camera {n}": (4096, 3072, 3) for n in range(4)}
    },
    "pixels that fit into no image": {
        "capabilities.contract.cameras": {"observation.images.top": (8192, 4608, 3)}
    },
    "columns that fit into no question": {
        "capabilities.contract.action_names": tuple(f"{number:0200}" for number in range(1000))
    },
    "columns by the thousand": {
        "capabilities.contract.vectors": {
            f"v{key}": tuple(f"{name}" for name in range(1000)) for key in range(4)
        }
    },
    "no digest": {"capabilities.digest": ""},
    "no rows": {"capabilities.chunk_size": 0},
    "no rows to execute": {"capabilities.n_action_steps": 0},
    "more rows to execute than there are": {"capabilities.n_action_steps": 5},
    "no observations": {"capabilities.n_obs_steps": 0},
}


@pytest.mark.parametrize("changes", LIES.values(), ids=LIES)
def test_a_status_that_cannot_be_of_its_key_is_ignored(world, changes, caplog):
    lie(world.network.node(), changes)
    assert discover(world.network.node(), timeout_s=LONG_S) == ()
    with pytest.raises(NoServer):
        world.robot("", timeout_s=0.1)
    world.server(load=0.9)
    assert [one.server for one in discover(world.network.node(), timeout_s=LONG_S)] == ["a"]
    assert world.robot("").infer(observation()).server == "a"
    assert "s/liar/status: the status is ignored: " in caplog.text
    assert all(len(record.getMessage()) < 800 for record in caplog.records)
    assert "\x1b" not in caplog.text


def test_names_that_fold_to_the_key_are_no_lie(world):
    names = {"server": "li ar", "capabilities.model": "lerobot act"}
    lie(world.network.node(), names, "@lefleet/lerobot-act/main/fold/s/li-ar/status")
    assert [one.server for one in discover(world.network.node(), timeout_s=LONG_S)] == ["li ar"]


def test_statuses_that_take_too_long_to_read_are_left(monkeypatch):
    """One node can answer a question a hundred thousand times."""
    status = server_status("a")
    key = wire.ServiceKeys("lerobot/act", "main", "fold").server("a").status
    answers = Answers((Reply(key, wire.STATUS.encode(status)),) * 20_000, 0, is_complete=True)
    node = MemoryTransport(MemoryNetwork())
    monkeypatch.setattr(node, "ask", lambda *_: answers)
    statuses, is_complete = ask_statuses(node, key, 0.01)
    assert not is_complete
    assert 0 < len(statuses) < 10_000


def test_many_bad_statuses_are_one_line(world, caplog):
    for number in range(40):
        lie(world.network.node(), {}, f"@lefleet/lerobot-act/main/fold/s/liar{number}/status")
    discover(world.network.node(), timeout_s=LONG_S)
    (record,) = caplog.records
    assert "(39 further ones too)" in record.getMessage()
