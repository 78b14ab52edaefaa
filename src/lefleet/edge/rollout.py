"""One rollout from its config to its end: LeRobot's strategies on a guarded robot."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event

from lerobot.robots import Robot
from lerobot.rollout import create_strategy
from lerobot.rollout.configs import (
    DAggerStrategyConfig,
    EpisodicStrategyConfig,
    HighlightStrategyConfig,
)
from lerobot.rollout.context import RolloutContext
from lerobot.rollout.inference import InferenceEngine
from lerobot.rollout.strategies import RolloutStrategy
from lerobot.teleoperators import Teleoperator

from lefleet.edge.context import ReportingRobot, build_context
from lefleet.edge.datasets import RolloutDataset
from lefleet.edge.engine import LockStepEngine, RemoteInferenceEngine
from lefleet.edge.episodes import (
    EpisodeEngine,
    EpisodeLabels,
    LabelledEpisodes,
    StandingDAgger,
)
from lefleet.edge.flags import EdgeRolloutConfig, plain_error
from lefleet.edge.guard import GuardedRobot
from lefleet.errors import LeFleetError
from lefleet_client.stream import Executed

_LOG = logging.getLogger(__name__)


def run_rollout(
    cfg: EdgeRolloutConfig, shutdown_event: Event, robot: Robot | None = None
) -> RolloutDataset | None:
    """Drive the robot until the strategy ends; what was recorded, if anything was to be.

    Whatever happens, the robot is driven to its initial pose and disconnected, before anything is
    uploaded. Raises BadInput for settings that cannot work, and LeFleetError for what went wrong
    later: the policy was lost, the recording ended early, an upload failed.
    """
    try:
        ctx = build_context(cfg, shutdown_event, robot, cfg.guard)
    except (NotImplementedError, ValueError) as error:
        raise plain_error(error) from error
    engine, dataset = ctx.policy.inference, ctx.data.dataset
    strategy = _prepare(cfg, ctx)
    problems: list[str] = []
    try:
        strategy.setup(ctx)
        strategy.run(ctx)
        _log_scene(ctx.hardware.robot_wrapper.inner)
    except KeyboardInterrupt:
        _LOG.info("Interrupted.")
    finally:
        problems += _tear_down(strategy, ctx)
    problems += _why_dead(cfg, engine)
    problems += _why_incomplete(dataset)
    problems += _why_not_uploaded(cfg, dataset)
    if problems:
        raise LeFleetError(" ".join(problems))
    return dataset


def _log_scene(robot: GuardedRobot) -> None:
    """What a simulation knows of its last episode."""
    extras = getattr(robot, "extras", None)
    if extras is not None:
        result = "success" if extras.success else f"no success, {extras.progress:.0%} of the way"
        _LOG.info("The simulated scene after %d steps: %s.", extras.steps, result)


def _prepare(cfg: EdgeRolloutConfig, ctx: RolloutContext) -> RolloutStrategy:
    """The strategy; and the engine, the dataset and the keys are told of each other."""
    engine, dataset, robot = ctx.policy.inference, ctx.data.dataset, ctx.hardware.robot_wrapper
    is_episodic = isinstance(cfg.strategy, EpisodicStrategyConfig)
    labels = EpisodeLabels(robot.inner, dataset, is_episodic=is_episodic)
    ctx.policy.inference = EpisodeEngine(engine, robot.inner, on_reset=labels.begin)
    if dataset is not None:
        dataset.attach(executed=_source(engine), outcome=labels.outcome)
    if isinstance(cfg.strategy, HighlightStrategyConfig) and isinstance(robot, ReportingRobot):
        # It adds frames seconds after their actions.
        robot.on_sent = dataset.acted
    elif dataset is not None:
        guarded = robot.inner
        dataset.corrected = lambda: guarded.last_sent if guarded.is_corrected else {}
    if isinstance(cfg.strategy, DAggerStrategyConfig):
        return StandingDAgger(cfg.strategy)
    return LabelledEpisodes(cfg.strategy, labels) if is_episodic else create_strategy(cfg.strategy)


def _source(engine: InferenceEngine) -> Callable[[], Executed | None]:
    """Where a frame's action came from; only a remote policy's is known."""
    if isinstance(engine, RemoteInferenceEngine | LockStepEngine):
        return lambda: engine.executed
    return lambda: None


def _tear_down(strategy: RolloutStrategy, ctx: RolloutContext) -> list[str]:
    """As the strategy does it, and if that fails, what matters of it; why it failed.

    LeRobot's order is keyboard, dataset, robot: a terminal that was closed would leave the robot
    where it is. A second Ctrl-C only skips the way to the initial pose.
    """
    hardware = ctx.hardware
    with ExitStack() as left:
        # In this order from the last to the first, also where one of them is interrupted.
        left.callback(ctx.policy.inference.stop)
        if ctx.data.dataset is not None:
            left.callback(ctx.data.dataset.finalize)
        for device in (hardware.teleop, hardware.robot_wrapper.inner):
            left.callback(_disconnect, device)
        return _tear_down_in_order(strategy, ctx)


def _disconnect(device: Robot | Teleoperator | None) -> None:
    if device is not None and device.is_connected:
        device.disconnect()


def _tear_down_in_order(strategy: RolloutStrategy, ctx: RolloutContext) -> list[str]:
    try:
        strategy.teardown(ctx)
    except Exception as error:  # noqa: BLE001 - the robot comes first, whatever it is
        _LOG.exception("The strategy did not end as it should.")
        strategy._teardown_hardware(  # noqa: SLF001 - LeRobot has no other way to do only this
            ctx.hardware, return_to_initial_position=ctx.runtime.cfg.return_to_initial_position
        )
        return [f"The strategy did not end as it should: {error}."]
    return []


def _why_dead(cfg: EdgeRolloutConfig, engine: InferenceEngine) -> Iterator[str]:
    if not engine.failed:
        return
    why = "its policy failed, see the log"
    if isinstance(engine, RemoteInferenceEngine):
        why = engine.status.state.reason
    where = "driven to its initial pose" if cfg.return_to_initial_position else "left where it was"
    yield f"The rollout ended: {why.rstrip('.?')}. The robot was {where}."


def _why_incomplete(dataset: RolloutDataset | None) -> Iterator[str]:
    if dataset is not None and dataset.ended:
        yield (
            f"The recording ended early: {dataset.ended}. Lost frames: {dataset.dropped_frames}, "
            f"kept episodes: {dataset.num_episodes}, in {dataset.root}."
        )


def _why_not_uploaded(cfg: EdgeRolloutConfig, dataset: RolloutDataset | None) -> Iterator[str]:
    if not cfg.uploads or cfg.dataset is None or dataset is None or not dataset.num_episodes:
        return
    try:
        dataset.upload(tags=cfg.dataset.tags, private=cfg.dataset.private)
    except Exception as error:  # noqa: BLE001 - of the hub's libraries, of the network's
        reason = " ".join(str(error).split()) or type(error).__name__
        yield f"The dataset is not uploaded: {reason}. It is complete in {dataset.root}."
