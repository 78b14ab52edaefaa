"""What part of a training step with cameras is decoding: films and PNG images, read by LeRobot."""

import re
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchmarks.report import Section, table
from benchmarks.workshop import Workshop, say
from lefleet import TrainRequest

CAMERAS = ("observation.images.top", "observation.images.wrist")
HEIGHT, WIDTH = 240, 320
FPS = 30
BATCH = 4
JOINTS = tuple(f"joint_{number}.pos" for number in range(6))
_TIMES = re.compile(r"updt_s:([\d.]+) data_s:([\d.]+)")


class Way(NamedTuple):
    """How images are stored, and how many processes read them."""

    title: str
    is_video: bool
    workers: int


WAYS = (
    Way("films, num_workers 0", is_video=True, workers=0),
    Way("films, num_workers 2", is_video=True, workers=2),
    Way("PNG, num_workers 0", is_video=False, workers=0),
    Way("PNG, num_workers 2", is_video=False, workers=2),
)


class Step(NamedTuple):
    """One training step, in milliseconds."""

    data_ms: float
    update_ms: float

    @property
    def share(self) -> float:
        return self.data_ms / (self.data_ms + self.update_ms)


def measure(workshop: Workshop) -> Section:
    ways = tuple(way for way in WAYS if way.workers == 0) if workshop.quick else WAYS
    roots = {is_video: _recorded(workshop, is_video=is_video) for is_video in (True, False)}
    steps = {way: _train(workshop, roots[way.is_video], way) for way in ways}
    rows = [
        (
            way.title,
            f"{step.data_ms:.0f}",
            f"{step.update_ms:.0f}",
            f"{step.share:.0%}",
            f"{step.data_ms / (BATCH * len(CAMERAS)):.1f}",
        )
        for way, step in steps.items()
    ]
    header = (
        f"LeRobot's ACT on the CPU, batches of {BATCH}",
        "data_s in ms",
        "updt_s in ms",
        "data, share of a step",
        "data, ms per image",
    )
    return Section(
        "part of a training step with cameras that is decoding",
        (table(header, rows),),
        (
            f"{len(CAMERAS)} cameras of {WIDTH} x {HEIGHT}, ACT as LeRobot has it, without "
            "ImageNet weights. One training of each, its first steps left out; lerobot-train's "
            "log counts its preprocessor as data.",
            "With loader processes data_s is the time that a step waits for them, and they take "
            "processor time from the updates.",
            "A GPU makes the updates faster and not the decoding: there the time per image says "
            "how many loader processes are needed.",
            f"Films are AV1, decoded by {_decoder()}.",
        ),
    )


def _decoder() -> str:
    from lerobot.utils.import_utils import get_safe_default_video_backend

    return str(get_safe_default_video_backend())


def _recorded(workshop: Workshop, *, is_video: bool) -> Path:
    """A dataset of scenes that move, made once."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = workshop.folder / ("films" if is_video else "images")
    if (root / "done").exists():
        return root
    vector = {"dtype": "float32", "shape": (len(JOINTS),), "names": list(JOINTS)}
    image = {
        "dtype": "video" if is_video else "image",
        "shape": (HEIGHT, WIDTH, 3),
        "names": ["height", "width", "channels"],
    }
    dataset = LeRobotDataset.create(
        repo_id=f"local/{root.name}",
        fps=FPS,
        features={"action": vector, "observation.state": vector, **dict.fromkeys(CAMERAS, image)},
        root=root,
        robot_type="benchmark",
        use_videos=is_video,
    )
    numbers = np.random.default_rng(0)
    for _ in range(1 if workshop.quick else 4):
        for at in range(10 if workshop.quick else 100):
            joints = (90 * np.sin(at / 20 + np.arange(len(JOINTS)))).astype(np.float32)
            views = {camera: _scene(numbers, at, camera) for camera in CAMERAS}
            frame = {"action": joints, "observation.state": joints, "task": "move"}
            dataset.add_frame({**frame, **views})
        dataset.save_episode()
    dataset.finalize()
    (root / "done").touch()
    say(f"{root.name} is recorded")
    return root


def _scene(numbers: np.random.Generator, at: int, camera: str) -> np.ndarray:
    """A square that moves over a gradient, with the noise of a sensor."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    ground = np.stack([rows % 256, columns % 256, (rows + columns) % 256], -1).astype(np.int16)
    left = (3 * at + 50 * CAMERAS.index(camera)) % (WIDTH - 40)
    ground[100:140, left : left + 40] = (250, 40, 40)
    noisy = ground + numbers.integers(-4, 5, ground.shape, dtype=np.int16)
    return noisy.clip(0, 255).astype(np.uint8)


def _train(workshop: Workshop, root: Path, way: Way) -> Step:
    request = TrainRequest(
        dataset=str(root),
        policy={"pretrained_backbone_weights": "null"},
        steps=2 if workshop.quick else 9,
        log_every=1 if workshop.quick else 3,
        save_every=1000,
        batch_size=BATCH,
        num_workers=way.workers,
    )
    folder, _ = workshop.stage(request)
    # The first line contains the start of the loader and of torch.
    lines = _TIMES.findall((folder / "log.txt").read_text(errors="replace"))[1:]
    return Step(*(1e3 * fmean(float(line[column]) for line in lines) for column in (1, 0)))
