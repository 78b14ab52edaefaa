"""Streams over a network in memory, with scripted servers."""

from types import SimpleNamespace

import pytest

from lefleet_client.stream import stream as stream_module
from tests.client.remote.conftest import World
from tests.client.stream.driving import Clock, Holding, Loop, serves
from tests.client.transport.networks import InMemory


class StreamWorld(World):
    """Servers that say what they serve, and control loops; a test closes none of them."""

    def __init__(self, network) -> None:
        super().__init__(network)
        self._loops = []

    def server(self, name="a", *, served=None, act=None, **options):
        server = super().server(name, act=act or Holding(at_once=10**6), **options)
        server.capabilities = served or serves()
        return server

    def loop(self, policy=None, **options) -> Loop:
        loop = Loop(policy or self.robot(), **options)
        self._loops.append(loop.stream)
        return loop

    def close(self) -> None:
        for stream in self._loops:
            stream.stop()
        super().close()


@pytest.fixture
def world():
    world = StreamWorld(InMemory())
    yield world
    world.close()


@pytest.fixture
def clock(monkeypatch):
    """The stream's own clock; its threads and the network go by the real one."""
    clock = Clock()
    monkeypatch.setattr(stream_module, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock
