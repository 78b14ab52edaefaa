"""A robot whose policy is on the testbed's server: its connection, and its control loop.

The loop is that of LeRobot's base strategy: observe, notify the engine, send its next action, wait
for the next tick.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from threading import Event
from typing import Any, NamedTuple

from lerobot.configs import PreTrainedConfig
from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.context import RolloutContext
from lerobot.rollout.strategies.core import send_next_action
from lerobot.utils.action_interpolator import ActionInterpolator

from lefleet.edge import RemoteInferenceConfig, build_context
from lefleet.errors import StageFailed
from lefleet.records import DrivenEpisode
from lefleet.robots import LeFleetSimConfig
from lefleet.sim.encode import FPS
from lefleet.sim.tasks import TASKS
from lefleet.testbed.server import OPEN_TIMEOUT_S, SERVICE

_REQUEST_TIMEOUT_S = 5.0


class Pace(NamedTuple):
    """How well the control loop kept its rate."""

    ticks: int
    late: int


def drive(ctx: RolloutContext, on_tick: Callable[[], None]) -> Pace:
    """One episode, until it has succeeded, its time is up, or the context's shutdown is asked for.

    `on_tick` is called after each action, from the first one on: until then a robot that waits for
    its first chunk stands still, and the episode's time has not begun.
    """
    robot, engine = ctx.hardware.robot_wrapper, ctx.policy.inference
    interpolator = ActionInterpolator(multiplier=1)
    tick_s = 1 / ctx.runtime.cfg.fps
    ticks = late = 0
    due_s = time.perf_counter()
    while not robot.inner.extras.finished and not ctx.runtime.shutdown_event.is_set():
        observation = robot.get_observation()
        processed = ctx.processors.robot_observation_processor(observation)
        engine.notify_observation(processed)
        sent = send_next_action(processed, observation, ctx, interpolator)
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
    if engine.failed:
        raise StageFailed("A robot's engine has given up.", "Its log says why.")
    return Pace(ticks, late)


class Tally:
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


def run_episode(ctx: RolloutContext, tally: Tally, delay_ms: float) -> DrivenEpisode:
    """The episode that the robot has begun, to its end; `delay_ms` is that of its link."""
    pace = drive(ctx, tally)
    robot = ctx.hardware.robot_wrapper.inner
    end = robot.extras
    return DrivenEpisode(
        delay_ms=delay_ms,
        task=ctx.runtime.cfg.robot.task,
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


def settings_for(port: int, delay_ms: float, **settings: Any) -> RemoteInferenceConfig:
    """How a robot reaches the testbed's server over a link with this delay."""
    return RemoteInferenceConfig(
        connect=f"tcp/127.0.0.1:{port}",
        service=SERVICE,
        request_timeout_s=_REQUEST_TIMEOUT_S + 4 * delay_ms / 1000,
        handshake_timeout_s=OPEN_TIMEOUT_S,
        **settings,
    )


@contextmanager
def connected(
    robot: LeFleetSimConfig, inference: RemoteInferenceConfig, checkpoint: str, shutdown: Event
) -> Iterator[RolloutContext]:
    """A connected robot whose engine runs; both end with the `with` block.

    Of `checkpoint`, a folder, only the settings are read: its weights are on the server.
    """
    policy = PreTrainedConfig.from_pretrained(checkpoint)
    # Where it names the folder of its weights, that is the one which its training started from.
    policy.pretrained_path = Path(checkpoint)
    cfg = RolloutConfig(
        robot=robot,
        policy=policy,
        inference=inference,
        fps=FPS,
        task=TASKS[robot.task].instruction,
    )
    ctx = build_context(cfg, shutdown)
    engine = ctx.policy.inference
    try:
        engine.reset()
        engine.start()
        engine.resume()
        yield ctx
    finally:
        engine.stop()
        ctx.hardware.robot_wrapper.inner.disconnect()
