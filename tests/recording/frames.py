"""Episodes whose content follows from their number, so that what is on disk can be checked."""

from pathlib import Path

import numpy as np

FPS = 30
SIDE = 64
CAMERA = "observation.images.top"
MODES = {
    "state": {},
    "images": {"use_videos": False},
    "staged": {"image_writer_threads": 2},
    "streaming": {"streaming_encoding": True},
}
"""How LeRobot stores cameras: not at all, in the data, encoded after an episode, or meanwhile."""


def features(mode: str) -> dict:
    vector = {"dtype": "float32", "shape": (3,), "names": ["x.pos", "y.pos", "z.pos"]}
    found = {"action": vector, "observation.state": vector}
    if mode != "state":
        names = ["height", "width", "channels"]
        dtype = "image" if mode == "images" else "video"
        found[CAMERA] = {"dtype": dtype, "shape": (SIDE, SIDE, 3), "names": names}
    return found


def length(episode: int) -> int:
    return 4 + episode % 3


def task(episode: int) -> str:
    return f"task {episode}"


def action(episode: int, frame: int) -> np.ndarray:
    return np.asarray([episode, frame, episode * 100 + frame], np.float32)


def shade(episode: int, frame: int) -> int:
    return (60 * episode + 9 * frame + 20) % 240


def frame_of(episode: int, frame: int, mode: str) -> dict:
    made = {
        "action": action(episode, frame),
        "observation.state": action(episode, frame) / 7,
        "task": task(episode),
    }
    if mode != "state":
        made[CAMERA] = np.full((SIDE, SIDE, 3), shade(episode, frame), np.uint8)
    return made


def create(root: Path, mode: str):
    from lefleet.recording import RecordedDataset

    return RecordedDataset.create(
        "local/rollout_test",
        fps=FPS,
        features=features(mode),
        root=root,
        robot_type="test",
        **{"use_videos": mode not in ("state", "images"), **MODES[mode]},
    )


def resume(root: Path, mode: str):
    from lefleet.recording import RecordedDataset

    settings = {name: value for name, value in MODES[mode].items() if name != "use_videos"}
    return RecordedDataset.resume("local/rollout_test", root=root, **settings)


def add_frames(dataset, episode: int, mode: str) -> None:
    for frame in range(length(episode)):
        dataset.add_frame(frame_of(episode, frame, mode))


def check(root: Path, episodes: int, mode: str) -> None:
    """LeRobot loads exactly these episodes, with the content that was recorded."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    loaded = LeRobotDataset("local/rollout_test", root=root)
    frames = [(one, frame) for one in range(episodes) for frame in range(length(one))]
    assert (loaded.num_episodes, loaded.num_frames, len(loaded)) == (
        episodes,
        len(frames),
        len(frames),
    )
    for index, (episode, frame) in enumerate(frames):
        item = loaded[index]
        assert item["action"].tolist() == action(episode, frame).tolist()
        assert (int(item["episode_index"]), int(item["frame_index"])) == (episode, frame)
        assert (int(item["index"]), item["task"]) == (index, task(episode))
        if mode != "state":
            assert abs(float(item[CAMERA].mean()) * 255 - shade(episode, frame)) < 6
    if episodes:
        assert int(loaded.meta.stats["action"]["count"][0]) == len(frames)
