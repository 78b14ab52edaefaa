"""A real server behind a real router, for policies that reach it as users do."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lefleet.server.service import PolicyService
from lerobot_policy_lefleet.configuration_lefleet import LefleetConfig
from lerobot_policy_lefleet.modeling_lefleet import LefleetPolicy
from tests.client.transport.networks import OverRouter
from tests.server.serving import loaded, serving


@dataclass
class Place:
    """Where a checkpoint is served."""

    checkpoint: Path
    endpoint: str
    service: PolicyService
    opened: ExitStack

    def policy(self, **flags) -> LefleetPolicy:
        policy = LefleetPolicy(LefleetConfig(connect=self.endpoint, **flags))
        self.opened.callback(policy.close)
        return policy


@contextmanager
def served(checkpoint: Path, **settings):
    network = OverRouter()
    try:
        with (
            serving(checkpoint, loaded(checkpoint), network.node(), **settings) as service,
            ExitStack() as opened,
        ):
            yield Place(checkpoint, network.router.endpoint, service, opened)
    finally:
        network.close()


@pytest.fixture(scope="session")
def place_of(checkpoint_of):
    """Serves a tiny checkpoint for as long as the test session."""
    with ExitStack() as stack:
        places: dict[str, Place] = {}

        def get(name: str) -> Place:
            if name not in places:
                places[name] = stack.enter_context(
                    served(checkpoint_of(name), default_task="reach")
                )
            return places[name]

        yield get


@pytest.fixture
def place(place_of):
    """ACT with a state and the environment's state."""
    return place_of("act_environment")
