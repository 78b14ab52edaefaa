"""What robots see: two cameras, fourteen joints, a task; and what every server answers."""

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CAMERAS = ("top", "wrist")
JOINTS = tuple(f"joint_{number}" for number in range(14))
HEIGHT, WIDTH = 480, 640
STATE_KEY = "observation.state"
IMAGE_KEY = "observation.images.{}"
STEPS = 50
TASK = "put the red cube into the box"
QUALITY = 90
FPS = 30.0

# A server proves that it has the observation by putting a joint and the image's brightness into its
# chunk. JPEG and resizing change that a little.
_TOLERANCE = 8.0


class Scene(NamedTuple):
    """One observation; images by camera, RGB."""

    state: NDArray[np.float32]
    images: dict[str, NDArray[np.uint8]]


class Answer(NamedTuple):
    """A chunk as the policy made it and as the robot executes it."""

    model: NDArray[np.float32]
    robot: NDArray[np.float32]


def film(count: int, seed: int = 0) -> list[Scene]:
    """Moving scenes: smooth light, a few edges, and a camera's noise; about 50 kB as a JPEG."""
    rng = np.random.default_rng(seed)
    return [
        Scene(
            rng.uniform(-1, 1, len(JOINTS)).astype(np.float32),
            {camera: _picture(rng, moment, phase) for phase, camera in enumerate(CAMERAS)},
        )
        for moment in range(count)
    ]


class StubPolicy:
    """Computes nothing; takes `seconds` for it, one request at a time, as a device would."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._device = threading.Lock()

    def predict(self, state: Sequence[float], image: NDArray[Any]) -> NDArray[np.float32]:
        if self._seconds:
            with self._device:
                time.sleep(self._seconds)
        chunk = np.zeros((STEPS, len(JOINTS)), np.float32)
        chunk[0, 0] = state[0]
        chunk[0, 1] = _brightness(image)
        return chunk


def check(scene: Scene, reply: Answer) -> None:
    """Raises unless the reply is one to this scene."""
    for chunk in reply:
        if chunk.shape != (STEPS, len(JOINTS)) or chunk[0, 0] != scene.state[0]:
            raise RuntimeError("the reply belongs to another observation")
        if abs(chunk[0, 1] - _brightness(scene.images[CAMERAS[0]])) > _TOLERANCE:
            raise RuntimeError("the server did not see the image that was sent")


def _brightness(image: NDArray[Any]) -> float:
    return float(image[::16, ::16, 0].mean())


def _picture(rng: np.random.Generator, moment: int, phase: int) -> NDArray[np.uint8]:
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    shift = 6.0 * moment + 90.0 * phase
    light = np.stack(
        [
            128 + 70 * np.sin((x + shift) / 130 + channel) + 40 * np.cos((y - shift) / 90)
            for channel in range(3)
        ],
        axis=-1,
    )
    for box in range(6):
        top = int(40 + 60 * box + shift) % (HEIGHT - 80)
        left = int(90 * box + 2 * shift) % (WIDTH - 100)
        light[top : top + 80, left : left + 100] *= 0.5 + 0.12 * box
    noise = rng.normal(0, 3.9, light.shape)
    return np.clip(light + noise, 0, 255).astype(np.uint8)
