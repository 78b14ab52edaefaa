"""Frames of a simulation, off screen and fast, with a clear word when no GL library is there."""

from typing import Any

import numpy as np
import numpy.typing as npt

from lefleet.errors import LeFleetError

Frame = npt.NDArray[np.uint8]

GL_REMEDY = "Install one with: sudo apt-get install libegl1 libgl1-mesa-dri"


class NoGraphics(LeFleetError):
    """No OpenGL library can render off screen here."""


class Renderer:
    """Renders one simulation from MetaWorld's second corner camera.

    Shadows, reflections and multisampling are off: in software they cost 300 ms a frame and tell
    nothing about the policy.
    """

    def __init__(self, sim: Any, size: int = 224) -> None:
        import mujoco

        model = sim.model
        model.vis.quality.shadowsize = 0
        model.vis.quality.offsamples = 0
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, size)
        model.vis.global_.offheight = max(model.vis.global_.offheight, size)
        try:
            self._renderer = mujoco.Renderer(model, size, size)
        except Exception as error:
            # mujoco fails here in many shapes (ImportError, AttributeError on None, its own
            # FatalError), all of which mean the same to the user.
            raise NoGraphics("No OpenGL library can render off screen here.", GL_REMEDY) from error
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._data = sim.data
        self._camera = "corner2"

    def frame(self) -> Frame:
        """The current state as RGB uint8, height x width x 3."""
        self._renderer.update_scene(self._data, camera=self._camera)
        # This camera hangs upside down.
        return np.ascontiguousarray(self._renderer.render()[::-1, ::-1])

    def close(self) -> None:
        self._renderer.close()


def graphics_problem() -> str | None:
    """Why frames cannot be rendered here, or None when they can."""
    try:
        import mujoco

        model = mujoco.MjModel.from_xml_string("<mujoco><worldbody/></mujoco>")
        renderer = mujoco.Renderer(model, 8, 8)
    except Exception as error:  # noqa: BLE001
        # As above: whatever it is, frames cannot be rendered.
        return f"{type(error).__name__}: {error}"
    renderer.close()
    return None
