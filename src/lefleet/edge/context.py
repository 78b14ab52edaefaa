"""What LeRobot's strategies work with, for a policy on a server or in this process.

The context is made of LeRobot's own parts, in the order in which its `build_rollout_context` makes
them: policy first, hardware last. So nothing moves before a server has taken the robot, or the
weights are loaded. It differs in three things: the guard is around every robot, a robot may name
vectors beside its state, and with a server there are no weights here.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any, NamedTuple

from lerobot.processor import make_default_processors
from lerobot.robots import Robot, make_robot_from_config
from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.context import (
    DatasetContext,
    HardwareContext,
    PolicyContext,
    ProcessorContext,
    RolloutContext,
    RuntimeContext,
)
from lerobot.rollout.inference import InferenceEngine
from lerobot.rollout.robot_wrapper import ThreadSafeRobot
from lerobot.teleoperators import Teleoperator, make_teleoperator_from_config

from lefleet.edge.config import RemoteInferenceConfig
from lefleet.edge.datasets import dataset_features, open_dataset, require_folder
from lefleet.edge.engine import connect, create_engine, require_same_policy
from lefleet.edge.features import features_of
from lefleet.edge.guard import GuardedRobot, joints_of
from lefleet.edge.judge import GuardConfig
from lefleet.edge.limits import require_allowed, robot_names, tightened, type_names
from lefleet.edge.local import LocalPolicy
from lefleet.errors import LeFleetError
from lerobot_policy_lefleet import LefleetConfig


class ReportingRobot(ThreadSafeRobot):
    """LeRobot's lock around a robot; `on_sent` is called after each command."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.on_sent: Callable[[], None] = lambda: None

    def send_action(self, action: Any) -> Any:
        sent = super().send_action(action)
        self.on_sent()
        return sent


class Driver(NamedTuple):
    """What decides about actions, and the order in which it names them."""

    engine: InferenceEngine
    action_names: list[str]
    local: LocalPolicy | None


def build_context(
    cfg: RolloutConfig,
    shutdown_event: Event,
    robot: Robot | None = None,
    guard: GuardConfig | None = None,
) -> RolloutContext:
    """The context of a rollout; `robot` replaces that of the config.

    Without a guard's config, the guard still stops what is not finite, and keeps to the limits that
    the constitution has for motors.

    Raises Denied where the constitution does not allow this robot, what `RemotePolicy` raises if no
    server takes it, BadInput and ValueError for settings that cannot work. The robot is then not
    connected, or disconnected again.
    """
    rules = require_allowed(cfg, robot)
    require_folder(cfg)
    types = type_names(cfg.robot) if robot is None else robot_names(robot)
    robot = robot or make_robot_from_config(cfg.robot)
    limits = tightened(guard or GuardConfig(), rules, types, joints_of(robot))
    guarded = GuardedRobot(robot, limits)
    wrapper = ReportingRobot(guarded)
    features = dataset_features(guarded, video=cfg.dataset is None or cfg.dataset.video)
    with ExitStack() as opened:
        driver = _driver(cfg, guarded, wrapper, features, shutdown_event)
        opened.callback(driver.engine.stop)
        with _device_errors("robot"):
            guarded.connect()
            opened.callback(guarded.disconnect)
            observation = guarded.get_observation()
        dataset = open_dataset(cfg, guarded, features)
        if dataset is not None:
            opened.callback(dataset.finalize)
        teleop = _teleoperator(cfg)
        opened.pop_all()
    teleop_action, robot_action, robot_observation = make_default_processors()
    local = driver.local
    return RolloutContext(
        runtime=RuntimeContext(cfg=cfg, shutdown_event=shutdown_event),
        hardware=HardwareContext(
            robot_wrapper=wrapper,
            teleop=teleop,
            initial_position={k: v for k, v in observation.items() if k.endswith(".pos")},
        ),
        # Strategies only use the engine: with a server there is no policy here.
        policy=PolicyContext(
            policy=local and local.policy,
            preprocessor=local and local.before,
            postprocessor=local and local.after,
            inference=driver.engine,
        ),
        processors=ProcessorContext(
            teleop_action_processor=teleop_action,
            robot_action_processor=robot_action,
            robot_observation_processor=robot_observation,
        ),
        data=DatasetContext(
            dataset=dataset,
            dataset_features=features,
            hw_features={k: v for k, v in features.items() if k.startswith("observation")},
            ordered_action_keys=driver.action_names,
        ),
    )


def _driver(
    cfg: RolloutConfig,
    guarded: GuardedRobot,
    wrapper: ThreadSafeRobot,
    features: dict[str, Any],
    shutdown_event: Event,
) -> Driver:
    config = cfg.inference
    if not isinstance(config, RemoteInferenceConfig):
        local = LocalPolicy.load(cfg, features)
        names = local.action_names(list(features["action"]["names"]))
        engine = local.engine(cfg, wrapper, features, names, shutdown_event)
        return Driver(engine, names, local)
    robot = features_of(guarded, guarded.robot_type, cfg.fps, cfg.rename_map)
    policy = connect(config, robot, task=cfg.task)
    try:
        if not isinstance(cfg.policy, LefleetConfig):
            require_same_policy(cfg.policy, policy.ack.capabilities)
        remote = create_engine(
            policy,
            config,
            features=robot,
            robot=guarded,
            task=cfg.task,
            renamed=cfg.rename_map,
            shutdown_event=shutdown_event,
        )
    except BaseException:
        policy.close()
        raise
    names = list(robot.facing(policy.ack.capabilities.contract).action_names)
    return Driver(remote, names, None)


def _teleoperator(cfg: RolloutConfig) -> Teleoperator | None:
    if cfg.teleop is None:
        return None
    teleop = make_teleoperator_from_config(cfg.teleop)
    with _device_errors("teleoperator"):
        teleop.connect()
    return teleop


@contextmanager
def _device_errors(device: str) -> Iterator[None]:
    """A device that is not there, or asks for something that nobody can answer, in one sentence."""
    try:
        yield
    except OSError as error:
        raise LeFleetError(f"The {device} cannot be connected: {error}.") from error
    except EOFError as error:
        raise LeFleetError(
            f"The {device} asks a question, and stdin is no terminal.",
            "It is probably not calibrated: run lerobot-calibrate first.",
        ) from error
