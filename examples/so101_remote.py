"""Drive an SO-101, or any other LeRobot robot, with a policy on a server.

On the machine with the policy:

    lefleet serve fold/pretrained_model

On the robot, with LeRobot and `pip install ./client`:

    python examples/so101_remote.py --robot.type=so101_follower --robot.port=/dev/ttyACM0 \
        --robot.id=arm-7 --robot.max_relative_target=5 \
        --robot.cameras='{top: {type: opencv, index_or_path: 0, width: 640, height: 480, fps: 30}}'

Without a robot, with the policy of `make demo` (`lefleet serve demo`):

    python examples/so101_remote.py --robot.discover_packages_path=lefleet.robots \
        --robot.type=lefleet_sim --robot.task=door-open --robot.time=stepped --fps=80

The robot waits for each chunk where it stands, which is fine for joints with positions.
`numpy_robot.py` shows how to ask for the next chunk while the last one is executed.
"""

from dataclasses import dataclass
from time import monotonic, sleep

import numpy as np
from lerobot.cameras.opencv import OpenCVCameraConfig  # noqa: F401 - makes type: opencv known
from lerobot.configs import parser
from lerobot.robots import RobotConfig, make_robot_from_config, so_follower  # noqa: F401

from lefleet_client import RemotePolicy, RobotFeatures

IMAGES = "observation.images."


@dataclass
class Settings:
    """The flags of this program."""

    robot: RobotConfig
    connect: str = "tcp/127.0.0.1:7447"
    tls: str = ""  # the folder that `lefleet certs` made, for another machine: tls/10.0.0.5:7447
    task: str = ""
    fps: float = 30.0
    seconds: float = 20.0


@parser.wrap()
def main(settings: Settings) -> None:
    robot = make_robot_from_config(settings.robot)
    sensors = robot.observation_features
    features = RobotFeatures(
        action_names=tuple(robot.action_features),
        vectors={"observation.state": tuple(name for name in sensors if sensors[name] is float)},
        cameras={IMAGES + k: shape for k, shape in sensors.items() if isinstance(shape, tuple)},
        fps=settings.fps,
        robot_type=robot.robot_type,
        by_name=True,  # columns are found by their names below, in the order of the policy
    )
    tls = settings.tls or None
    policy = RemotePolicy(settings.connect, robot=features, task=settings.task, tls=tls)
    with policy, robot:  # the server has accepted the robot before its motors are switched on
        served = policy.ack.capabilities
        columns = features.facing(served.contract)
        policy.reset()  # an episode begins
        first = observation = robot.get_observation()
        end = monotonic() + settings.seconds
        while monotonic() < end:
            vectors = {k: np.array([observation[n] for n in v]) for k, v in columns.vectors.items()}
            images = {k: observation[k.removeprefix(IMAGES)] for k in served.contract.cameras}
            chunk = policy.infer(vectors | images)
            tick = monotonic()
            for action in chunk.robot[: served.n_action_steps].tolist():
                robot.send_action(dict(zip(columns.action_names, action, strict=True)))
                tick += 1 / settings.fps
                sleep(max(0.0, tick - monotonic()))
            observation = robot.get_observation()
        for name in columns.vectors["observation.state"]:
            print(f"{name} went from {first[name]:.2f} to {observation[name]:.2f}")


if __name__ == "__main__":
    main()
