"""Servers that acknowledge or send other than what was asked for."""

import msgspec
import pytest

from lefleet_client import wire
from lefleet_client.remote import (
    NoServer,
    WrongModel,
)
from lefleet_client.wire import header
from tests.client.remote.scripted import (
    CONTRACT,
    answer,
    keep_asking,
    observation,
)


def acknowledging(server, **changes):
    """The server acknowledges sessions with these changes of the ack or its capabilities."""
    plain = server._ack
    names = changes.keys() & server.capabilities.__struct_fields__
    served = {name: changes.pop(name) for name in names}
    changes["capabilities"] = msgspec.structs.replace(server.capabilities, **served)
    server._ack = lambda request: msgspec.structs.replace(plain(request), **changes)
    return server


@pytest.mark.parametrize(
    "changes",
    [
        {"session_epoch": 1},
        {"model": "other/model"},
        {"revision": "v2"},
        {"chunk_size": 5},
        {"contract": msgspec.structs.replace(CONTRACT, action_names=("gripper.pos",) * 2)},
        {"schema_version": 7},
    ],
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


def test_an_ack_of_another_instance_than_the_one_found_opens_nothing(world):
    server = acknowledging(world.server(), instance_id="a-2")
    with pytest.raises(NoServer, match=r"server a was restarted while .* two servers have"):
        world.robot(timeout_s=0.3)
    assert len(server.closes) == len(server.opens)
    server.instance_id = "a-2"
    assert world.robot().ack.instance_id == "a-2"


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
