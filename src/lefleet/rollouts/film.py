"""Frames of one episode to an .mp4, every second step of the simulation."""

from pathlib import Path
from typing import Any

from lefleet.sim.encode import FPS
from lefleet.sim.render import Frame, NoGraphics, Renderer

_EVERY = 2


class Film:
    """Films a simulation; where that is impossible, says why instead of failing the episode."""

    def __init__(self, sim: Any) -> None:
        self._frames: list[Frame] = []
        self._problem = ""
        self._steps = 0
        try:
            self._renderer: Renderer | None = Renderer(sim)
        except NoGraphics as error:
            self._renderer = None
            self._problem = str(error)
        self.shoot()

    def shoot(self) -> None:
        if self._renderer is not None and self._steps % _EVERY == 0:
            self._frames.append(self._renderer.frame())
        self._steps += 1

    def write(self, path: Path) -> str:
        """Write the film; returns why it could not, or an empty string."""
        if self._renderer is None:
            return self._problem
        self._renderer.close()
        import av

        path.parent.mkdir(parents=True, exist_ok=True)
        height, width, _ = self._frames[0].shape
        with av.open(str(path), "w") as container:
            stream = container.add_stream("h264", rate=FPS // _EVERY)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for image in self._frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
            container.mux(stream.encode())
        return ""
