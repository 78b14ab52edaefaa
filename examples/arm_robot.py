"""Drive the arm of `arm_dataset.py` with a policy on a server: only its joints are sent.

    lefleet serve arm/train
    python examples/arm_robot.py tcp/127.0.0.1:7447

It starts somewhere and says where it ends; a trained policy ends at the tray. The machine needs the
client only (`pip install ./client`). Replace the line that moves the joints by your motors.
"""

import argparse

import numpy as np
from arm_dataset import FPS, IMAGE, JOINTS, TASK, TRAY, Joints, photograph, random_start
from numpy.typing import NDArray

from lefleet_client import RemoteError, RemotePolicy, RobotFeatures
from lefleet_client.stream import LockStep


def main(endpoint: str, episodes: int, seed: int, *, camera: bool) -> None:
    robot = RobotFeatures(
        action_names=JOINTS,  # the server compares these names with those of its policy
        vectors={"observation.state": JOINTS},
        cameras={"observation.images.top": IMAGE} if camera else {},
        fps=FPS,
        robot_type="arm",
    )
    numbers = np.random.default_rng(seed)
    reached = 0
    with RemotePolicy(endpoint, robot=robot) as policy:
        steps = LockStep(policy, task=TASK)
        for _ in range(episodes):
            steps.reset()
            joints = start = random_start(numbers)
            for _ in range(8 * FPS):
                observed: dict[str, NDArray[np.generic]] = {"observation.state": joints}
                if camera:
                    observed["observation.images.top"] = photograph(joints)
                # Limit every step: a policy may ask for anything.
                joints = np.clip(steps.next_action(observed), joints - 8, joints + 8)
            is_there = np.abs(joints - TRAY).max() < 3
            reached += is_there
            print(f"from {_degrees(start)} to {_degrees(joints)}{'' if is_there else ', missed'}")
    print(f"{reached} of {episodes} episodes ended at the tray, {_degrees(TRAY)}")


def _degrees(joints: Joints) -> str:
    return ", ".join(f"{value:.0f}°" for value in joints)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("endpoint")
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--camera", action="store_true", help="send images, too")
    try:
        main(**vars(parser.parse_args()))
    except RemoteError as error:
        raise SystemExit(f"arm_robot: {error}") from None
