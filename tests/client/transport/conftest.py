"""The networks that the contract is tested on."""

import pytest

from tests.client.transport.networks import BetweenPeers, InMemory, OverRouter


@pytest.fixture(params=[InMemory, OverRouter, BetweenPeers], ids=lambda kind: kind.__name__)
def network(request):
    network = request.param()
    yield network
    network.close()


@pytest.fixture
def pair(network):
    return network.node(), network.node()


@pytest.fixture
def routed():
    """For what only Zenoh does."""
    network = OverRouter()
    yield network
    network.close()
