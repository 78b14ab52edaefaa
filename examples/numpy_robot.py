"""Drive a robot without LeRobot: numpy in, numpy out, 20 times a second.

On the machine with the policy:

    lefleet serve fold/pretrained_model

On the robot, with only the client installed (`pip install ./client`):

    python examples/numpy_robot.py tcp/127.0.0.1:7447 --seconds=20

Replace `Arm` by your robot. Another machine needs TLS, that is `RemotePolicy(..., tls=FOLDER)`
with a folder that `lefleet certs` made.
"""

import argparse
import logging
from time import monotonic, sleep

import numpy as np
from numpy.typing import NDArray

from lefleet_client import RemotePolicy, RobotFeatures
from lefleet_client.stream import ActionStream, StreamSettings

FPS = 20
JOINTS = ("shoulder.pos", "elbow.pos", "gripper.pos")
CAMERA = (240, 320, 3)


class Arm:
    """An imaginary arm with one camera; it is always where it was told to be."""

    def __init__(self) -> None:
        self.joints: NDArray[np.float32] = np.zeros(len(JOINTS), np.float32)

    def observe(self) -> dict[str, NDArray[np.generic]]:
        """The policy's inputs: joints as floats, images as RGB uint8."""
        image = np.zeros(CAMERA, np.uint8)
        return {"observation.state": self.joints.copy(), "observation.images.top": image}

    def execute(self, joints: NDArray[np.float32]) -> None:
        """Limit every step: a policy may ask for anything."""
        self.joints = np.clip(joints, self.joints - 0.05, self.joints + 0.05)


def main(endpoint: str, seconds: float) -> None:
    arm = Arm()
    robot = RobotFeatures(
        action_names=JOINTS,  # the server compares these names with those of its policy
        vectors={"observation.state": JOINTS},
        cameras={"observation.images.top": CAMERA},
        fps=FPS,
        robot_type="arm",
    )
    with RemotePolicy(endpoint, robot=robot) as policy:
        stream = ActionStream(policy, StreamSettings(fps=FPS), action_names=JOINTS)
        stream.start()
        stream.resume()  # it begins paused
        tick = monotonic()
        end = tick + seconds
        try:
            while tick < end and not stream.is_dead:
                stream.notify(arm.observe())
                action = stream.next_action()  # at once, whatever the network does
                if action is not None:
                    arm.execute(action)
                tick += 1 / FPS
                sleep(max(0.0, tick - monotonic()))
        finally:
            stream.stop()
    status = stream.status()
    print(f"{status.executed} actions, {status.fallbacks} times without a fresh one")
    for name, value in zip(JOINTS, arm.joints, strict=True):
        print(f"{name} is at {value:.2f}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)  # shows every change of the stream's state
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint")
    parser.add_argument("--seconds", type=float, default=20.0)
    main(**vars(parser.parse_args()))
