"""The program of a simulated robot: runs of episodes from stdin, driven in wall-clock time."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from threading import Event

import msgspec
from lerobot.rollout.context import RolloutContext

from lefleet.process.pool import DONE
from lefleet.profile.cells import READY, RobotWork
from lefleet.records import DrivenEpisode
from lefleet.robots import LeFleetSimConfig
from lefleet.testbed.drive import Tally, connected, run_episode, settings_for


def remote_context(work: RobotWork) -> AbstractContextManager[RolloutContext]:
    inference = settings_for(
        work.port, work.delay_ms, client_id=f"profile-{os.getpid()}", merge=work.merge
    )
    return connected(robot_config(work), inference, work.checkpoint, Event())


def robot_config(work: RobotWork) -> LeFleetSimConfig:
    return LeFleetSimConfig(task=work.task, seed=work.first_seed, horizon=work.episode_length)


def episodes(work: RobotWork, ctx: RolloutContext) -> Iterator[DrivenEpisode]:
    """Every episode of `work` as it ends."""
    robot, engine = ctx.hardware.robot_wrapper.inner, ctx.policy.inference
    for number in range(work.episodes):
        if number:
            robot.new_episode()
            engine.reset()
        yield run_episode(ctx, Tally(engine), work.delay_ms)


def main() -> None:
    # Libraries print; what belongs to the protocol goes to a copy of stdout that only we know.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")

    def answer(line: bytes) -> None:
        answers.write(line + b"\n")
        answers.flush()

    for line in sys.stdin.buffer:
        if line.strip() == READY:
            answer(DONE)
            continue
        work = msgspec.json.decode(line, type=RobotWork)
        with remote_context(work) as ctx:
            for episode in episodes(work, ctx):
                answer(msgspec.json.encode(episode))
        answer(DONE)


if __name__ == "__main__":
    main()
