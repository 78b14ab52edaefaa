"""Frames of a simulation, off screen, and which OpenGL library MuJoCo may use for them.

MuJoCo chooses its library once, at import. Its default needs a screen, and naming a library that
is not installed makes the import itself fail, although simulating needs no graphics at all. So the
library is chosen before MuJoCo is imported, and numpy is imported late: this module is loaded with
the package.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lefleet.errors import LeFleetError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    type RenderedFrame = NDArray[np.uint8]

OFF = "disable"
_LIBRARIES = {"egl": ("libEGL.so.1",), "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6")}


def choose_graphics() -> None:
    """Set MUJOCO_GL on Linux. What the user set stays, unless its library is missing."""
    if sys.platform != "linux":
        return
    wanted = os.environ.get("MUJOCO_GL", "")
    if not wanted:
        os.environ["MUJOCO_GL"] = best_library(_is_loadable)
    elif wanted in _LIBRARIES and not any(map(_is_loadable, _LIBRARIES[wanted])):
        os.environ["MUJOCO_GL"] = OFF


def best_library(is_loadable: Callable[[str], bool]) -> str:
    """MuJoCo's name for the first library that can be loaded, or for none."""
    for name, files in _LIBRARIES.items():
        if any(map(is_loadable, files)):
            return name
    return OFF


def _is_loadable(file: str) -> bool:
    try:
        ctypes.CDLL(file)
    except OSError:
        return False
    return True


GL_REMEDY = "Install OpenGL with: sudo apt-get install libegl1 libgl1-mesa-dri"


class NoGraphics(LeFleetError):
    """No OpenGL library can render off screen here."""


class Renderer:
    """Renders one simulation from MetaWorld's second corner camera.

    Shadows, reflections and multisampling are off: in software they cost 300 ms a frame and tell
    nothing about the policy.
    """

    def __init__(self, sim: Any, size: int = 224) -> None:
        model = sim.model
        model.vis.quality.shadowsize = 0
        model.vis.quality.offsamples = 0
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, size)
        model.vis.global_.offheight = max(model.vis.global_.offheight, size)
        self._renderer = _make(model, size)
        self._data = sim.data
        self._camera = "corner2"

    def frame(self) -> "RenderedFrame":
        """The current state as RGB uint8, height x width x 3."""
        import numpy as np

        self._renderer.update_scene(self._data, camera=self._camera)
        # This camera hangs upside down.
        return np.ascontiguousarray(self._renderer.render()[::-1, ::-1])

    def close(self) -> None:
        self._renderer.close()


def graphics_problem() -> str | None:
    """Why frames cannot be rendered here, or None when they can."""
    import mujoco

    try:
        _make(mujoco.MjModel.from_xml_string("<mujoco><worldbody/></mujoco>"), 8).close()
    except NoGraphics as error:
        return error.problem
    return None


def _make(model: Any, size: int) -> Any:
    import mujoco

    if os.environ.get("MUJOCO_GL") == OFF:
        raise NoGraphics("There is no OpenGL library that renders off screen.", GL_REMEDY)
    try:
        renderer = mujoco.Renderer(model, size, size)
    except Exception as error:
        # mujoco fails here in many shapes (ImportError, AttributeError on None, its own
        # FatalError), all of which mean the same to the user.
        problem = f"OpenGL cannot render off screen here ({type(error).__name__})."
        raise NoGraphics(problem, GL_REMEDY) from error
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
    return renderer
