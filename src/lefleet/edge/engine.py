"""LeRobot's inference engine with the policy on a server: streamed, or in lock-step."""

import logging
from threading import Event
from typing import Any

import torch
from lerobot.configs import FeatureType, PreTrainedConfig
from lerobot.rollout.inference.base import InferenceEngine
from lerobot.utils.constants import ACTION

from lefleet.edge.config import RemoteInferenceConfig
from lefleet.edge.features import RENAMED, ObservationMap, inputs_of, positions_in
from lefleet.edge.guard import GuardedRobot
from lefleet.errors import BadInput
from lefleet_client import RemotePolicy, RobotFeatures
from lefleet_client.stream import ActionStream, Executed, LockStep, StreamStatus
from lefleet_client.wire import Capabilities

_LOG = logging.getLogger(__name__)


def connect(config: RemoteInferenceConfig, robot: RobotFeatures, *, task: str) -> RemotePolicy:
    """A session on a server that takes this robot; raises why there is none.

    It needs no connected robot, so that a wrong address or robot is found before anything moves.
    """
    return RemotePolicy(
        config.endpoints,
        config.service,
        robot=robot,
        model=config.model,
        revision=config.revision,
        client_id=config.client_id,
        task=task,
        pin_digest=config.pin_digest,
        image_codec=config.image_codec,
        jpeg_quality=config.jpeg_quality,
        resize=config.resize,
        wants_rtc=config.merge == "rtc",
        tags=config.tags,
        timeout_s=config.request_timeout_s,
        connect_timeout_s=config.handshake_timeout_s,
        tls=config.tls or None,
        insecure=config.insecure,
    )


def require_same_policy(config: PreTrainedConfig, served: Capabilities) -> None:
    """Refuse a server whose policy is not that of `--policy.path`, whose config alone is read."""
    contract = served.contract
    columns = {key: len(names) for key, names in contract.vectors.items()}
    columns[ACTION] = len(contract.action_names)
    features = {**inputs_of(config), **config.output_features}
    # An image's size is no matter of the policy: it is resized.
    here = {k: one.shape[0] for k, one in features.items() if one.type is not FeatureType.VISUAL}
    cameras = sorted(k for k, one in features.items() if one.type is FeatureType.VISUAL)
    chunk_size = getattr(config, "chunk_size", served.chunk_size)
    for what, mine, theirs in (
        ("type", config.type, contract.policy_type),
        *((f"columns of {k}", here.get(k, 0), columns.get(k, 0)) for k in {**here, **columns}),
        ("cameras", ", ".join(cameras) or "none", ", ".join(sorted(contract.cameras)) or "none"),
        ("steps of a chunk", chunk_size, served.chunk_size),
    ):
        if mine != theirs:
            raise BadInput(
                f"policy.path: its {what}: {mine}; the server's: {theirs}.",
                "Leave --policy.path out to take what is served.",
            )


def create_engine(
    policy: RemotePolicy,
    config: RemoteInferenceConfig,
    *,
    features: RobotFeatures,
    robot: GuardedRobot,
    task: str,
    renamed: RENAMED,
    shutdown_event: Event,
) -> "RemoteInferenceEngine | LockStepEngine":
    """The engine that the config asks for; a ValueError says which setting cannot work."""
    contract = policy.ack.capabilities.contract
    convert = ObservationMap(features, contract, renamed)
    if config.mode == "lockstep":
        return LockStepEngine(
            LockStep(policy, execute_steps=config.execute_steps, convert=convert, task=task)
        )
    action_names = features.facing(contract).action_names
    stream = ActionStream(
        policy,
        config.stream_settings(features.fps),
        action_names=action_names,
        convert=convert,
        positions=lambda seen: positions_in(action_names, robot.last_sent, seen),
        task=task,
        robot_type=features.robot_type,
        on_dead=shutdown_event.set,
        guarded=lambda: robot.counts[1:3],
    )
    plan = stream.plan
    _LOG.info(
        "%s on server %s: merge %s, %d steps of a chunk, actions at most %.1f s old",
        contract.policy_type,
        policy.server,
        plan.merge,
        plan.execute_steps,
        plan.max_action_age_s,
    )
    return RemoteInferenceEngine(stream)


class RemoteInferenceEngine(InferenceEngine):
    """Actions of a remote policy for LeRobot's strategies, at the control rate.

    Threads: a strategy's control loop calls everything here, and never waits for the network.
    `ActionStream` lists the threads that do. Nothing that goes wrong later than `start` is raised:
    the robot falls back, and in the end `failed` is True and the rollout shuts down.
    """

    def __init__(self, stream: ActionStream) -> None:
        self._stream = stream

    def start(self) -> None:
        self._stream.start()

    def stop(self) -> None:
        self._stream.stop()

    def reset(self) -> None:
        self._stream.reset()

    def pause(self) -> None:
        self._stream.pause()

    def resume(self) -> None:
        self._stream.resume()

    def notify_observation(self, obs: dict[str, Any]) -> None:
        self._stream.notify(obs)

    def get_action(self, obs_frame: dict[str, Any] | None) -> torch.Tensor | None:  # noqa: ARG002
        """The action to execute now; None: send nothing."""
        action = self._stream.next_action()
        return None if action is None else torch.from_numpy(action)

    @property
    def failed(self) -> bool:
        """Whether the robot gave up."""
        return self._stream.is_dead

    @property
    def status(self) -> StreamStatus:
        """The fail-safe state and the counts."""
        return self._stream.status()

    @property
    def executed(self) -> Executed:
        """Where the newest action came from."""
        return self._stream.executed


class LockStepEngine(InferenceEngine):
    """Asks and waits whenever a chunk is used up, and raises what the network does."""

    def __init__(self, lockstep: LockStep) -> None:
        self._lockstep = lockstep
        self._observation: dict[str, Any] = {}

    def start(self) -> None:
        """Nothing runs beside the control loop."""

    def stop(self) -> None:
        self._lockstep.stop()

    def reset(self) -> None:
        self._lockstep.reset()

    def notify_observation(self, obs: dict[str, Any]) -> None:
        self._observation = obs

    def get_action(self, obs_frame: dict[str, Any] | None) -> torch.Tensor:  # noqa: ARG002
        return torch.from_numpy(self._lockstep.next_action(self._observation))

    @property
    def executed(self) -> Executed:
        """Where the newest action came from."""
        return self._lockstep.executed
