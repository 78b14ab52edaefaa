"""The program of a simulated robot: runs of episodes from stdin, driven in wall-clock time.

The loop is that of LeRobot's base strategy: observe, notify the engine, send its next action, wait
for the next tick.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean
from threading import Event
from typing import Any, NamedTuple

import msgspec
from lerobot.configs import PreTrainedConfig
from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.context import RolloutContext
from lerobot.rollout.strategies.core import send_next_action
from lerobot.utils.action_interpolator import ActionInterpolator

from lefleet.edge import RemoteInferenceConfig, build_remote_context
from lefleet.errors import StageFailed
from lefleet.process.pool import DONE
from lefleet.profile.cells import RobotWork
from lefleet.profile.server import OPEN_TIMEOUT_S, SERVICE
from lefleet.records import DrivenEpisode
from lefleet.robots import LeFleetSimConfig
from lefleet.sim.encode import FPS
from lefleet.sim.tasks import TASKS

_REQUEST_TIMEOUT_S = 5.0


class Pace(NamedTuple):
    """How well the control loop kept its rate."""

    ticks: int
    late: int


def drive(ctx: RolloutContext, on_tick: Callable[[], None]) -> Pace:
    """One episode, until it has succeeded or its time is up.

    `on_tick` is called after each action, from the first one on: until then a robot that waits for
    its first chunk stands still, and the episode's time has not begun.
    """
    robot, engine = ctx.hardware.robot_wrapper, ctx.policy.inference
    interpolator = ActionInterpolator(multiplier=1)
    tick_s = 1 / ctx.runtime.cfg.fps
    ticks = late = 0
    due_s = time.perf_counter()
    while not robot.inner.extras.finished:
        observation = robot.get_observation()
        processed = ctx.processors.robot_observation_processor(observation)
        engine.notify_observation(processed)
        sent = send_next_action(processed, observation, ctx, interpolator)
        if engine.failed:
            raise StageFailed("A robot's engine has given up.", "Its log says why.")
        if sent is not None or ticks:
            ticks += 1
            on_tick()
        due_s += tick_s
        left_s = due_s - time.perf_counter()
        if left_s > 0:
            time.sleep(left_s)
        elif left_s < -tick_s:
            late += 1 if ticks else 0
            due_s = time.perf_counter()
    return Pace(ticks, late)


class _Tally:
    """What the engine tells at each tick of one episode."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._seq_id: int | None = None
        self.fallbacks = 0
        self.ages_ms: list[float] = []
        self.round_trips_ms: list[float] = []

    def __call__(self) -> None:
        executed = self._engine.executed
        if executed.origin is None:
            self.fallbacks += 1
            return
        self.ages_ms.append(executed.age_s * 1000)
        if executed.origin.seq_id != self._seq_id:
            self._seq_id = executed.origin.seq_id
            self.round_trips_ms.append(round(self._engine.status.last_round_trip_s * 1000, 1))


@contextmanager
def remote_context(work: RobotWork) -> Iterator[RolloutContext]:
    """A connected robot whose engine runs; both end with the `with` block."""
    later_s = 4 * work.delay_ms / 1000
    inference = RemoteInferenceConfig(
        connect=f"tcp/127.0.0.1:{work.port}",
        service=SERVICE,
        client_id=f"profile-{os.getpid()}",
        merge=work.merge,
        request_timeout_s=_REQUEST_TIMEOUT_S + later_s,
        handshake_timeout_s=OPEN_TIMEOUT_S,
    )
    cfg = RolloutConfig(
        robot=robot_config(work),
        # Only its settings are read.
        policy=PreTrainedConfig.from_pretrained(work.checkpoint),
        inference=inference,
        fps=FPS,
        task=TASKS[work.task].instruction,
    )
    ctx = build_remote_context(cfg, Event())
    engine = ctx.policy.inference
    try:
        engine.reset()
        engine.start()
        engine.resume()
        yield ctx
    finally:
        engine.stop()
        ctx.hardware.robot_wrapper.inner.disconnect()


def robot_config(work: RobotWork) -> LeFleetSimConfig:
    return LeFleetSimConfig(task=work.task, seed=work.first_seed, horizon=work.episode_length)


def episodes(work: RobotWork, ctx: RolloutContext) -> Iterator[DrivenEpisode]:
    """Every episode of `work` as it ends."""
    robot, engine = ctx.hardware.robot_wrapper.inner, ctx.policy.inference
    for number in range(work.episodes):
        if number:
            robot.new_episode()
            engine.reset()
        tally = _Tally(engine)
        pace = drive(ctx, tally)
        end = robot.extras
        yield DrivenEpisode(
            delay_ms=work.delay_ms,
            task=work.task,
            seed=end.seed,
            success=end.success,
            progress=round(end.progress, 4),
            length=end.steps,
            ticks=pace.ticks,
            late=pace.late,
            fallbacks=tally.fallbacks,
            action_age_ms=round(fmean(tally.ages_ms or [0.0]), 1),
            round_trips_ms=tuple(tally.round_trips_ms),
        )


def main() -> None:
    # Libraries print; what belongs to the protocol goes to a copy of stdout that only we know.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")

    def answer(line: bytes) -> None:
        answers.write(line + b"\n")
        answers.flush()

    for line in sys.stdin.buffer:
        work = msgspec.json.decode(line, type=RobotWork)
        with remote_context(work) as ctx:
            for episode in episodes(work, ctx):
                answer(msgspec.json.encode(episode))
        answer(DONE)


if __name__ == "__main__":
    main()
