"""Lock-step over a server gives the same episodes as the policy in the same process."""

from threading import Event

import numpy as np
import pytest
from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.strategies.core import send_next_action
from lerobot.utils.action_interpolator import ActionInterpolator

from lefleet.edge import RemoteInferenceConfig, build_context
from lefleet.robots import LeFleetSim, LeFleetSimConfig
from lefleet.rollouts.metaworld import MetaWorld
from lefleet.rollouts.policy import BatchPolicy
from lefleet.sim.encode import ACTION_NAMES, FPS
from lefleet.sim.tasks import TASKS
from lefleet.stages.references import find_checkpoint
from lerobot_policy_lefleet import LefleetConfig
from tests.client.transport.networks import OverRouter
from tests.server.serving import loaded, serving

TASK, SEEDS, STEPS = "door-open", (100_000_000, 100_000_001), 60


@pytest.fixture(scope="module")
def weights(checkpoint):
    return find_checkpoint(str(checkpoint), "checkpoint").path


@pytest.fixture(scope="module")
def endpoint(weights):
    """A router with a server of the half-trained checkpoint behind it."""
    network = OverRouter()
    with serving(weights, loaded(weights), network.node()):
        yield network.router.endpoint
    network.close()


def remote_episodes(endpoint: str) -> list[list[np.ndarray]]:
    """The commands that reach the simulated robot, episode by episode."""
    commands: list[list[np.ndarray]] = [[]]
    config = LeFleetSimConfig(task=TASK, seed=SEEDS[0], time="stepped", horizon=STEPS)
    robot = LeFleetSim(
        config, on_command=lambda sent, _: commands[-1].append([sent[k] for k in ACTION_NAMES])
    )
    cfg = RolloutConfig(
        robot=config,
        policy=LefleetConfig(),
        inference=RemoteInferenceConfig(connect=endpoint, mode="lockstep", client_id="sim"),
        fps=FPS,
        task=TASKS[TASK].instruction,
    )
    ctx = build_context(cfg, Event(), robot)
    engine = ctx.policy.inference
    for _ in SEEDS:
        engine.reset()
        interpolator = ActionInterpolator(multiplier=1)
        while not robot.extras.finished:
            observation = ctx.hardware.robot_wrapper.get_observation()
            engine.notify_observation(observation)
            send_next_action(observation, observation, ctx, interpolator)
        robot.new_episode()
        commands.append([])
    engine.stop()
    robot.disconnect()
    return [np.array(one, np.float32) for one in commands[:-1]]


def local_episode(weights, seed: int) -> np.ndarray:
    """What LeFleet's own engine does with one row, clipped to the range that is executed."""
    policy, world = BatchPolicy(str(weights), "cpu"), MetaWorld(TASK)
    policy.reset(seed)
    observation, actions = world.reset(seed, 0), []
    for _ in range(STEPS):
        action = policy.act([observation], [world.instruction])[0]
        actions.append(action)
        outcome = world.step(action)
        observation = world.observe()
        if outcome.success:
            break
    return np.clip(np.array(actions, np.float32), -1, 1)


def test_every_action_of_every_episode_is_the_same(weights, endpoint):
    remote = remote_episodes(endpoint)
    assert len(remote) == len(SEEDS)
    for seed, actions in zip(SEEDS, remote, strict=True):
        assert actions.tobytes() == local_episode(weights, seed).tobytes()
