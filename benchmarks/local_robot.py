"""A simulated robot in wall-clock time with its policy in the same process: LeRobot's sync engine.

The program reads the work of `lefleet.profile.robot` from stdin and answers in the same way; only
the engine differs.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Event
from typing import Any

import msgspec
from lerobot.configs import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.processor import make_default_processors
from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.context import (
    DatasetContext,
    HardwareContext,
    PolicyContext,
    ProcessorContext,
    RolloutContext,
    RuntimeContext,
)
from lerobot.rollout.inference.sync import SyncInferenceEngine
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from lerobot.utils.constants import OBS_STR
from lerobot.utils.feature_utils import build_dataset_frame

from lefleet.edge import GuardConfig, GuardedRobot
from lefleet.edge.datasets import dataset_features
from lefleet.process.pool import DONE
from lefleet.profile.cells import READY, RobotWork
from lefleet.profile.robot import robot_config
from lefleet.records import DrivenEpisode
from lefleet.robots import LeFleetSim
from lefleet.sim.encode import ACTION_NAMES, FPS
from lefleet.sim.tasks import TASKS
from lefleet.testbed.drive import drive


@cache
def load(checkpoint: str) -> tuple[Any, Any, Any, Any]:
    """Config, policy and processors, as LeRobot's rollout loads them."""
    config = PreTrainedConfig.from_pretrained(checkpoint)
    policy = get_policy_class(config.type).from_pretrained(checkpoint, config=config)
    before, after = make_pre_post_processors(policy_cfg=config, pretrained_path=checkpoint)
    return config, policy.to("cpu").eval(), before, after


@contextmanager
def local_context(work: RobotWork) -> Iterator[RolloutContext]:
    """A connected robot and its policy; the robot ends with the `with` block."""
    config, policy, before, after = load(work.checkpoint)
    robot = GuardedRobot(LeFleetSim(robot_config(work)), GuardConfig())
    features = dataset_features(robot, video=False)
    task = TASKS[work.task].instruction
    engine = SyncInferenceEngine(
        policy, before, after, features, list(ACTION_NAMES), task, "cpu", robot.robot_type
    )
    cfg = RolloutConfig(robot=robot.config, policy=config, fps=FPS, task=task)
    teleop_action, robot_action, robot_observation = make_default_processors()
    robot.connect()
    try:
        # The first inference takes longer than others; it is not the robot's.
        engine.get_action(build_dataset_frame(features, robot.get_observation(), prefix=OBS_STR))
        yield RolloutContext(
            runtime=RuntimeContext(cfg=cfg, shutdown_event=Event()),
            hardware=HardwareContext(ThreadSafeRobot(robot), teleop=None, initial_position={}),
            policy=PolicyContext(policy, before, after, inference=engine),
            processors=ProcessorContext(teleop_action, robot_action, robot_observation),
            data=DatasetContext(None, features, features, list(ACTION_NAMES)),
        )
    finally:
        robot.disconnect()


def episodes(work: RobotWork) -> Iterator[DrivenEpisode]:
    """Every episode of `work` as it ends."""
    with local_context(work) as ctx:
        robot = ctx.hardware.robot_wrapper.inner
        for number in range(work.episodes):
            if number:
                robot.new_episode()
            ctx.policy.inference.reset()
            pace = drive(ctx, lambda: None)
            end = robot.extras
            yield DrivenEpisode(
                delay_ms=0.0,
                task=work.task,
                seed=end.seed,
                success=end.success,
                progress=round(end.progress, 4),
                length=end.steps,
                ticks=pace.ticks,
                late=pace.late,
                fallbacks=0,
                action_age_ms=0.0,
            )


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        if line.strip() != READY:
            for episode in episodes(msgspec.json.decode(line, type=RobotWork)):
                answers.write(msgspec.json.encode(episode) + b"\n")
                answers.flush()
        answers.write(DONE + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
