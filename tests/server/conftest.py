"""Small policies that several files ask, and a router for those that need a real network."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from lefleet.policy import ServedPolicy
from tests.client.transport.networks import FREE_PORT, Router
from tests.policy import tiny
from tests.server.serving import loaded


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory) -> Callable[[str], Path]:
    """The folder of a checkpoint of `tiny`, by its builder's name; tests do not change it."""

    @cache
    def made(name: str) -> Path:
        return getattr(tiny, name)(tmp_path_factory.mktemp(name))

    return made


@pytest.fixture(scope="session")
def policy_of(checkpoint_of) -> Callable[[str], ServedPolicy]:
    """The same, loaded."""

    @cache
    def made(name: str) -> ServedPolicy:
        return loaded(checkpoint_of(name), model__discover_packages=f"[{tiny.PLUGINS}]")

    return made


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
