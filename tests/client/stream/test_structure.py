"""The control loop never waits: the worker is frozen where it could be, and the loop goes on."""

import threading
import time

import numpy as np
import pytest

from lefleet_client.remote import observation as remote_observation
from tests.client.remote.scripted import CONTRACT, STATE, TOP, observation
from tests.client.stream.driving import FrozenPublisher, Gate, serves
from tests.client.transport.waiting import bounded, eventually

PLACES = ["put", "encode", "handshake", "reset"]


@pytest.fixture
def frozen(world, monkeypatch):
    """A streaming loop, and a gate in the worker's way that is shut."""
    gates = []

    def freeze(place: str, **options):
        gate = Gate()
        gates.append(gate)
        server = world.server(served=serves(contract=CONTRACT))
        policy = world.robot(image_codec="jpeg")
        encode = remote_observation.encode_images

        def encode_slowly(*values):
            if threading.current_thread().name == "edge worker" and place == "encode":
                gate.pass_through()
            return encode(*values)

        monkeypatch.setattr(remote_observation, "encode_images", encode_slowly)
        endpoints = policy._connection._endpoints
        if place == "put":
            endpoints._publisher = FrozenPublisher(endpoints._publisher, gate)
        ask = policy.node.ask

        def ask_slowly(*values):
            if place in ("handshake", "reset"):
                gate.pass_through()
            return ask(*values)

        policy.node.ask = ask_slowly
        loop = world.loop(policy, convert=with_image, **options)
        loop.tick_until(loop.is_in("streaming"))
        gate.shut()
        if place == "handshake":
            server.close()
        if place == "reset":
            loop.stream.reset()
        return loop, gate

    yield freeze
    for gate in gates:
        gate.open()


def with_image(seen):
    return {STATE: seen[STATE], TOP: observation(image=True)[TOP]}


@pytest.mark.parametrize("place", PLACES)
def test_the_loop_goes_on_when_the_worker_is_frozen(frozen, place):
    loop, gate = frozen(place)
    last = loop.executed[-1]
    loop.tick_until(lambda: gate.is_reached.is_set() and loop.stream.status().queued == 0)
    queued = [one for one in loop.executed if one is not None]
    began_s = time.monotonic()
    bounded(lambda: loop.tick(100))
    assert time.monotonic() - began_s < 2.0
    if place == "reset":
        assert loop.executed[-100:] == [None] * 100, "nothing was commanded in this episode"
    else:
        assert np.isfinite(last).all()
        assert all(one.tolist() == queued[-1].tolist() for one in loop.executed[-100:])
        assert loop.mode in ("stalled", "reconnecting")
        assert loop.stream.status().fallbacks >= 100
    for call in (loop.stream.status, loop.stream.pause, loop.stream.resume, loop.stream.reset):
        bounded(call)
    gate.open()


@pytest.mark.parametrize("place", ["put", "encode", "handshake"])
def test_a_frozen_worker_is_noticed(frozen, place):
    loop, gate = frozen(place, max_offline_s=0.6)
    loop.tick_until(lambda: loop.stream.is_dead, 5.0)
    assert loop.deaths == 1
    gate.open()


def test_stopping_does_not_wait_for_a_frozen_worker(frozen, monkeypatch, caplog):
    from lefleet_client.stream import worker

    monkeypatch.setattr(worker, "_JOIN_S", 0.2)
    loop, gate = frozen("put")
    loop.tick_until(gate.is_reached.is_set)
    began_s = time.monotonic()
    loop.stream.stop()
    assert time.monotonic() - began_s < 2.0
    assert "the edge worker did not end within 0.2 s" in caplog.text
    gate.open()
    eventually(lambda: not loop.stream._worker._thread.is_alive())


def test_a_frozen_watch_does_not_keep_a_robot_alive(world):
    """Its publication hangs; the control loop itself lets time pass."""
    server = world.server()
    gate = Gate()
    loop = world.loop(max_offline_s=0.5)
    report = loop.stream._watch._report
    report._publisher = FrozenPublisher(report._publisher, gate)
    loop.tick_until(loop.is_in("streaming"))
    gate.shut()
    eventually(gate.is_reached.is_set)
    server.close()
    loop.tick_until(lambda: loop.stream.is_dead, 5.0)
    gate.open()


def test_no_callback_of_the_user_runs_with_the_lock_held(world):
    def at(place: str, value):
        def call(*_):
            is_free = loop.stream._lock.acquire(timeout=1.0)
            loop.stream._lock.release()
            found.add((place, is_free))
            return value

        return call

    found = set()
    server = world.server()
    loop = world.loop(
        action_names=("a.pos", "b.vel"),
        positions=at("positions", np.zeros(2, np.float32)),
        convert=at("convert", {STATE: np.zeros(3, np.float32)}),
        guarded=at("guarded", (0, 0)),
        on_dead=at("on_dead", None),
        max_offline_s=0.3,
    )
    loop.tick_until(loop.is_in("streaming"))
    server.close()
    loop.tick_until(lambda: loop.stream.is_dead)
    assert found == {(name, True) for name in ("positions", "convert", "guarded", "on_dead")}
