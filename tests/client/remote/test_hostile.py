"""Whatever arrives under a server's keys, a robot gets a sound chunk or a documented error."""

import copy
import itertools
import logging
import random
from contextlib import suppress

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lefleet_client import wire
from lefleet_client.remote import RemoteError, discover
from tests.client.remote.conftest import World
from tests.client.remote.scripted import (
    STEPS,
    ScriptedServer,
    acknowledgement,
    observation,
    server_status,
)
from tests.client.transport.networks import InMemory

ODD = [
    *(None, True, -1, 0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1),
    *(-0.0, 1e308, float("nan"), float("inf"), -float("inf")),
    *("", "/", "status", "*", "\x1b[2J\n", "\u202e", "x" * 255, "é" * 5000, wire.NEWER),
    *(wire.REPLACED, "draining", "digest", "raw", b"", b"\xff" * 100, [], {}, [[]], [1, 1]),
    *({"": None}, ["x"] * 300, {str(number): [] for number in range(70)}),
]
OTHERS = [
    wire.STATUS.encode(server_status("a")),
    wire.SESSION_REPLY.encode(acknowledgement("a", 0)),
    wire.SESSION_REPLY.encode(wire.SessionRejected(check="\x07", reason="\n" * 16000)),
    wire.SESSION_REPLY.encode(wire.SessionCloseAck(session_id="x")),
    *(wire.EVENT.encode(one) for one in (
        wire.Draining(),
        wire.SessionClosed(reason="\x1b" * 16000),
        wire.SessionClosed(reason=wire.REPLACED),
        wire.Probed(seq_id=0, decode_ms=0.0),
        wire.RequestFailed(seq_id=2**64 - 1, reason="x"),
        *(wire.RequestFailed(seq_id=number, reason=wire.NEWER) for number in range(4)),
    )),
    wire.RESET_REPLY.encode(wire.ResetAck(session_id="a", episode_id=2**32 - 1)),
    *(b"", b"\xc1", b"\x80", b"\x00" * 100, bytes(5_000_000)),
]  # fmt: skip


def mutated(body: bytes, dice: random.Random) -> bytes:
    """Another message, other bytes, or the same message with another value in some place."""
    kind = dice.randrange(5)
    if kind == 0:
        return dice.choice(OTHERS)
    if kind == 1:
        changed = bytearray(body or b"\x00")
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        return bytes(changed[: dice.randint(1, len(changed))] if dice.random() < 0.3 else changed)
    message = msgspec.msgpack.decode(body)
    for _ in range(kind - 1):
        _change(message, dice)
    return msgspec.msgpack.encode(message)


def _change(message, dice: random.Random) -> None:
    """Put an odd value somewhere into nested maps and lists, or remove something."""
    while True:
        place = dice.choice(list(message) if isinstance(message, dict) else range(len(message)))
        inner = message[place]
        if not isinstance(inner, dict | list) or not inner or dice.random() < 0.2:
            break
        message = inner
    if isinstance(message, dict) and dice.random() < 0.1:
        del message[place]
    else:
        message[place] = copy.deepcopy(dice.choice(ODD))


class HostileNode:
    """A transport whose every answer and publication may be replaced, by its number."""

    def __init__(self, transport, mutations: dict[int, int]) -> None:
        self._transport = transport
        self._mutations = mutations
        self._numbers = itertools.count()

    def __getattr__(self, name):
        return getattr(self._transport, name)

    def serve(self, pattern, on_question):
        return self._transport.serve(pattern, lambda asked: self._spoil(on_question(asked)))

    def publisher(self, key, qos):
        return HostilePublisher(self._transport.publisher(key, qos), self._spoil)

    def _spoil(self, body: bytes) -> bytes:
        seed = self._mutations.get(next(self._numbers) % 16)
        return body if seed is None else mutated(body, random.Random(seed))


class HostilePublisher:
    def __init__(self, publisher, spoil) -> None:
        self._publisher, self._spoil = publisher, spoil
        self.close = publisher.close

    def put(self, payload, attachment):
        spoilt = self._spoil(payload)
        if spoilt != payload and len(spoilt) % 4 == 0:
            attachment = attachment[:2] + bytes([len(spoilt) % 5]) + attachment[3:]
        self._publisher.put(spoilt, attachment)
        self._publisher.put(payload, attachment)


def ask_a_hostile_server(mutations: dict[int, int]) -> None:
    world = World(InMemory())
    server = ScriptedServer(HostileNode(world.network.node(), mutations))
    try:
        with suppress(RemoteError):
            policy = world.robot("", timeout_s=0.1, connect_timeout_s=0.1)
            for image in (False, True, False):
                with suppress(RemoteError):
                    chunk = policy.infer(observation(image=image))
                    for actions in (chunk.model, chunk.robot):
                        assert actions.shape == (STEPS, 2)
                        assert np.isfinite(actions).all()
                with suppress(RemoteError):
                    policy.reset()
        discover(world.network.node(), timeout_s=0.1)
    finally:
        server.close()
        world.close()


MUTATIONS = st.dictionaries(st.integers(0, 15), st.integers(0, 2**32 - 1), max_size=12)


@pytest.mark.parametrize("examples", [25, pytest.param(500, marks=pytest.mark.chaos)])
def test_only_documented_errors_are_raised(examples, caplog):
    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=[Phase.generate],
    )
    @given(mutations=MUTATIONS)
    def attack(mutations):
        caplog.clear()
        ask_a_hostile_server(mutations)
        lines = [record.getMessage() for record in caplog.records]
        assert not [one for one in caplog.records if one.levelno >= logging.ERROR], lines
        assert all(len(line) < 1500 and line.isprintable() for line in lines), lines

    attack()
