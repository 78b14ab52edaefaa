"""Networks with scripted servers, and robots that ask them."""

import pytest

from lefleet_client.remote import RemotePolicy
from tests.client.remote.scripted import ScriptedServer
from tests.client.transport.networks import InMemory, OverRouter


class World:
    """Servers and robots on one network; a test closes none of them."""

    def __init__(self, network) -> None:
        self.network = network
        self._policies = []

    def server(self, name="a", **options) -> ScriptedServer:
        return ScriptedServer(self.network.node(), name, **options)

    def robot(self, service="fold", **options) -> RemotePolicy:
        options = {"client_id": "arm", "timeout_s": 10.0, **options}
        policy = RemotePolicy("test", service, transport=self.network.node(), **options)
        self._policies.append(policy)
        return policy

    def close(self) -> None:
        for policy in self._policies:
            policy.close()
        self.network.close()


@pytest.fixture
def world():
    """In memory: quick, and nothing is lost."""
    world = World(InMemory())
    yield world
    world.close()


@pytest.fixture(params=[InMemory, OverRouter], ids=lambda kind: kind.__name__)
def any_world(request):
    world = World(request.param())
    yield world
    world.close()
