"""A small policy that several files ask, and a router for those that need a real network."""

import pytest

from tests.client.transport.networks import FREE_PORT, Router
from tests.policy import tiny
from tests.server.serving import loaded


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """ACT with the environment's state; tests do not change it."""
    return tiny.act_environment(tmp_path_factory.mktemp("act"))


@pytest.fixture(scope="session")
def policy(checkpoint):
    return loaded(checkpoint)


@pytest.fixture
def router():
    router = Router(FREE_PORT)
    yield router
    router.close()
