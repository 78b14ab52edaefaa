"""One rollout from its config to its end: LeRobot's strategies on a guarded robot."""

import logging
from collections.abc import Callable
from threading import Event

from lerobot.robots import Robot
from lerobot.rollout import create_strategy
from lerobot.rollout.configs import EpisodicStrategyConfig
from lerobot.rollout.inference import InferenceEngine
from lerobot.rollout.strategies import RolloutStrategy

from lefleet.edge.context import build_context
from lefleet.edge.engine import RemoteInferenceEngine
from lefleet.edge.episodes import EpisodeEngine, EpisodeLabels, LabelledEpisodes
from lefleet.edge.flags import EdgeRolloutConfig
from lefleet.errors import LeFleetError
from lefleet.recording import RecordedDataset
from lefleet_client.stream import Executed

_LOG = logging.getLogger(__name__)


def run_rollout(cfg: EdgeRolloutConfig, shutdown_event: Event, robot: Robot | None = None) -> None:
    """Drive the robot until the strategy ends; raises why the policy was lost, if it was.

    Whatever happens, the strategy's teardown drives the robot to its initial pose and disconnects
    it, before anything is uploaded.
    """
    ctx = build_context(cfg, shutdown_event, robot, cfg.guard)
    engine = ctx.policy.inference
    labels = EpisodeLabels(ctx.hardware.robot_wrapper.inner)
    ctx.policy.inference = EpisodeEngine(engine, on_reset=labels.begin)
    if isinstance(ctx.data.dataset, RecordedDataset):
        ctx.data.dataset.attach(executed=_source(engine), outcome=labels.outcome)
    strategy = strategy_of(cfg, labels)
    try:
        strategy.setup(ctx)
        strategy.run(ctx)
    except KeyboardInterrupt:
        _LOG.info("interrupted")
    finally:
        strategy.teardown(ctx)
    if cfg.uploads and ctx.data.dataset is not None and ctx.data.dataset.num_episodes:
        ctx.data.dataset.push_to_hub(tags=cfg.dataset.tags, private=cfg.dataset.private)
    _require_alive(engine)


def _source(engine: InferenceEngine) -> Callable[[], Executed | None]:
    """Where a frame's action came from; only a remote policy's is known."""
    if isinstance(engine, RemoteInferenceEngine):
        return lambda: engine.executed
    return lambda: None


def strategy_of(cfg: EdgeRolloutConfig, labels: EpisodeLabels) -> RolloutStrategy:
    """LeRobot's strategy; recording in episodes has keys for success and failure too."""
    if isinstance(cfg.strategy, EpisodicStrategyConfig):
        return LabelledEpisodes(cfg.strategy, labels)
    return create_strategy(cfg.strategy)


def _require_alive(engine: InferenceEngine) -> None:
    if isinstance(engine, RemoteInferenceEngine) and engine.failed:
        raise LeFleetError(
            f"The robot stopped: {engine.status.state.reason}.",
            "It was driven to its initial pose. See: lefleet fleet",
        )
    if engine.failed:
        raise LeFleetError("The robot stopped, because its policy failed.", "See the log above.")
