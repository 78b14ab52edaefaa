"""Servers that answer other than they were asked."""

import msgspec
import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import NoServer, RemoteError, WrongModel, opening
from lefleet_client.wire import header
from tests.client.remote.scripted import STEPS, answer, observation


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
    server = world.server(act=lambda mail: mail.chunk(chunk_model=other, chunk_robot=other))
    policy = world.robot()
    with pytest.raises(RemoteError, match=r"chunk has 7 columns, and its contract 2: shoulder.pos"):
        policy.infer(observation())
    server.act = answer
    assert policy.infer(observation()).robot.shape == (STEPS, 2)


def test_headers_are_written_in_the_version_that_was_agreed_on(world, monkeypatch):
    for module in (opening, header):
        monkeypatch.setattr(module, "OLDEST_VERSION", 0)
    server = acknowledging(world.server(), schema_version=0)
    world.robot().infer(observation())
    assert server.observations[0].header.schema_version == 0
