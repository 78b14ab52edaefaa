"""Small policies that several files ask, and a router for those that need a real network."""

import pytest

from tests.client.transport.networks import FREE_PORT, Router


@pytest.fixture(scope="session")
def checkpoint(checkpoint_of):
    """ACT with the environment's state."""
    return checkpoint_of("act_environment")


@pytest.fixture(scope="session")
def policy(policy_of):
    return policy_of("act_environment")


@pytest.fixture
def router():
    router = Router(FREE_PORT)
    yield router
    router.close()
