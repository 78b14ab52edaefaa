"""The film of an episode, encoded while it runs."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from lefleet.rollouts.worlds import Camera
from lefleet.sim.render import NoGraphics

_FASTEST = 40
"""Frames per second; what is faster is filmed at every second step, every third, …"""


class Film:
    """Films a world; where that is impossible, reports why instead of failing the episode."""

    def __init__(self, open_camera: Callable[[], Camera], fps: int) -> None:
        self._every = max(1, fps // _FASTEST)
        self._rate = max(1, fps // self._every)
        self._steps = 0
        self._problem = ""
        self._content = BytesIO()
        self._container: Any = None
        self._stream: Any = None
        self._camera: Camera | None = None
        try:
            self._camera = open_camera()
        except NoGraphics as error:
            self._problem = str(error)
        self.shoot()

    def shoot(self) -> None:
        if self._camera is not None and self._steps % self._every == 0:
            try:
                self._add(self._camera.frame())
            except NoGraphics as error:
                self._camera = None
                self._problem = str(error)
        self._steps += 1

    def write(self, path: Path) -> str:
        """Write the film; returns why it could not, or an empty string."""
        if self._camera is None:
            return self._problem
        self._camera.close()
        self._container.mux(self._stream.encode())
        self._container.close()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._content.getvalue())
        return ""

    def _add(self, image: Any) -> None:
        import av

        # The format has a colour for every four pixels.
        height, width = (size - size % 2 for size in image.shape[:2])
        if self._container is None:
            self._container = av.open(self._content, "w", format="mp4")
            self._stream = self._container.add_stream("h264", rate=self._rate)
            self._stream.width, self._stream.height = width, height
            self._stream.pix_fmt = "yuv420p"
        frame = np.ascontiguousarray(image[:height, :width])
        self._container.mux(self._stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
