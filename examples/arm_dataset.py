"""Write a small LeRobotDataset of an arm with three joints, in degrees, as your own arm would.

    python examples/arm_dataset.py data/arm
    python examples/arm_dataset.py data/arm-camera --camera

There is no environment state, and without --camera no image: a state and an action, that is all.
What a person would demonstrate is scripted here. From wherever the arm is, it moves to the tray and
closes the gripper when it is there. `arm_robot.py` shows what a policy has learned from it.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FPS = 20
TASK = "park at the tray"
JOINTS = ("shoulder.pos", "elbow.pos", "gripper.pos")
TRAY = np.array([35.0, -70.0, 5.0], np.float32)
"""Degrees of the joints at the end."""
OPEN = 45.0
IMAGE = (96, 96, 3)

Joints = NDArray[np.float32]


def demonstrated(joints: Joints) -> Joints:
    """Where a good operator moves the joints within one tick."""
    goal = TRAY.copy()
    if np.abs(joints[:2] - TRAY[:2]).max() > 4.0:
        goal[2] = OPEN
    step = np.clip(0.2 * (goal - joints), -5.0, 5.0)
    return (joints + step).astype(np.float32)


def random_start(numbers: np.random.Generator) -> Joints:
    return numbers.uniform([-80, -120, 0], [80, 0, 60]).astype(np.float32)


def photograph(joints: Joints) -> NDArray[np.uint8]:
    """What a camera above the arm sees: two links in white, the gripper's opening in red."""
    height, width, _ = IMAGE
    image = np.zeros(IMAGE, np.uint8)
    angles = np.radians([joints[0], joints[0] + joints[1]])
    knots = np.cumsum([[0, 0], *([np.sin(a), np.cos(a)] for a in angles)], axis=0) * 20
    for start, end in pairwise(knots):
        points = (start + np.linspace(0, 1, 60)[:, None] * (end - start)).round().astype(int)
        image[height // 2 - points[:, 1], width // 2 + points[:, 0]] = 255
    x, y = knots[-1].round().astype(int)
    size = 1 + round(max(0.0, float(joints[2])) / 15)
    row, column = height // 2 - y, width // 2 + x
    image[max(0, row - size) : row + size, max(0, column - size) : column + size, 0] = 255
    return image


def write(folder: Path, episodes: int, seed: int, *, camera: bool) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (len(JOINTS),), "names": list(JOINTS)}
    features = {"observation.state": vector, "action": vector}
    if camera:
        image = {"dtype": "image", "shape": IMAGE, "names": ["height", "width", "channels"]}
        features["observation.images.top"] = image
    dataset = LeRobotDataset.create(
        f"local/{folder.name}", FPS, features, root=folder, robot_type="arm", use_videos=False
    )
    numbers = np.random.default_rng(seed)
    for _ in range(episodes):
        joints = random_start(numbers)
        at_tray = 0
        while at_tray < FPS // 2:
            action = demonstrated(joints)
            frame = {"observation.state": joints, "action": action, "task": TASK}
            if camera:
                frame["observation.images.top"] = photograph(joints)
            dataset.add_frame(frame)
            # No motor stops exactly where it was told to.
            joints = (action + numbers.normal(0, 0.2, len(JOINTS))).astype(np.float32)
            at_tray += bool(np.abs(joints - TRAY).max() < 1.5)
        dataset.save_episode()
    dataset.finalize()
    print(f"{episodes} episodes, {dataset.num_frames} frames in {folder}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--camera", action="store_true", help="add images of a camera")
    arguments = parser.parse_args()
    if arguments.folder.exists():
        parser.error(f"{arguments.folder} exists. Name a folder that does not, or remove it.")
    write(**vars(arguments))
