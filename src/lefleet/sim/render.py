"""Frames of a simulation, off screen, and which OpenGL library MuJoCo may use for them.

MuJoCo chooses its library once, at import. Its default needs a screen, and naming a library that
is not installed makes the import itself fail, although simulating needs no graphics at all. So the
library is chosen before MuJoCo is imported, and numpy is imported late: this module is loaded with
the package.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lefleet.errors import BadInput, LeFleetError

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
    _name_window_library()
    wanted = os.environ.get("MUJOCO_GL", "")
    if not wanted:
        os.environ["MUJOCO_GL"] = best_library(_is_loadable)
    elif wanted in _LIBRARIES and not any(map(_is_loadable, _LIBRARIES[wanted])):
        os.environ["MUJOCO_GL"] = OFF


def _name_window_library() -> None:
    """Tell glfw, which comes with the simulation and is not used, where its library is: it would
    look for it with a process of its own at every import."""
    spec = find_spec("glfw")
    if "PYGLFW_LIBRARY" in os.environ or spec is None or spec.origin is None:
        return
    wayland = os.environ.get("XDG_SESSION_TYPE") == "wayland"
    wanted = os.environ.get("PYGLFW_LIBRARY_VARIANT", "wayland" if wayland else "x11").lower()
    library = Path(spec.origin).parent / wanted / "libglfw.so"
    if library.is_file():
        os.environ["PYGLFW_LIBRARY"] = str(library)


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


class _View(NamedTuple):
    """A camera of MetaWorld's scenes, and whether it hangs upside down."""

    mujoco_name: str
    is_upside_down: bool


_VIEWS = {
    "corner": _View("corner2", is_upside_down=True),
    "gripper": _View("gripperPOV", is_upside_down=False),
    "behind": _View("behindGripper", is_upside_down=False),
    "top": _View("topview", is_upside_down=False),
}
CAMERAS = tuple(_VIEWS)
"""Names of the cameras. Films show the corner."""
SMALLEST_IMAGE = 8
LARGEST_IMAGE = 1024
DEFAULT_IMAGE = 96
"""Pixels of a side."""


class ImageSize(NamedTuple):
    """In pixels."""

    height: int
    width: int


type CameraSizes = Mapping[str, ImageSize]
"""Cameras to render, by name."""


def require_cameras(names: Iterable[str], field: str = "cameras") -> None:
    """Raise BadInput naming `field` where a camera does not exist, or is named twice."""
    named = list(names)
    for name in named:
        if name not in CAMERAS:
            choices = ", ".join(CAMERAS)
            raise BadInput(f"{field}: there is no {name!r}.", f"Choose from: {choices}.")
    if len(set(named)) < len(named):
        raise BadInput(f"{field}: named twice: {', '.join(named)}.", "Name each of them once.")


class Renderer:
    """Renders simulations of one task, from any of the cameras.

    Shadows, reflections and multisampling are off: in software they cost 300 ms a frame and tell
    nothing about the policy. It belongs to the thread that made it, and a fork must make its own.
    """

    def __init__(self, sim: Any, width: int = 224, height: int | None = None) -> None:
        import mujoco

        height = height or width
        model = sim.model
        model.vis.quality.shadowsize = 0
        model.vis.quality.offsamples = 0
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, height)
        self._renderer = _make(model, width, height)
        self._sim = sim
        self._data = mujoco.MjData(model)

    def frame(self, camera: str = "corner", sim: Any = None) -> "RenderedFrame":
        """The current state as RGB uint8, height x width x 3; `sim`: of another simulation of the
        same task, which has the same meshes and textures."""
        import mujoco
        import numpy as np

        view, seen = _VIEWS[camera], sim or self._sim
        eye = mujoco.MjvCamera()
        eye.type = mujoco.mjtCamera.mjCAMERA_FIXED
        eye.fixedcamid = seen.model.camera(view.mujoco_name).id
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        scene, option = self._renderer.scene, mujoco.MjvOption()
        self._place(seen)
        mujoco.mjv_updateScene(seen.model, self._data, option, None, eye, everything, scene)
        image = self._renderer.render()
        return np.ascontiguousarray(image[::-1, ::-1] if view.is_upside_down else image)

    def _place(self, sim: Any) -> None:
        """Put everything where the simulation's state says.

        After a reset its own poses are partly those of the episode before, and computing them there
        could change the episode's numbers.
        """
        import mujoco

        data = self._data
        data.qpos[:] = sim.data.qpos
        data.mocap_pos[:], data.mocap_quat[:] = sim.data.mocap_pos, sim.data.mocap_quat
        mujoco.mj_kinematics(sim.model, data)
        mujoco.mj_comPos(sim.model, data)
        mujoco.mj_camlight(sim.model, data)
        # As MetaWorld does after every step: markers of goals are no part of the physics.
        for name, position in sim._target_site_config:  # noqa: SLF001
            data.site(name).xpos = position[:3]

    def close(self) -> None:
        self._renderer.close()


class Renderers:
    """Renderers that simulations of the same task share, made when they are first needed.

    Each has an OpenGL context with all meshes and textures of the task: 55 MB, and half a second to
    make. They belong to the thread that uses them first, and a fork must make its own.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[type, ImageSize], Renderer] = {}

    def images(self, sim: Any, sizes: CameraSizes) -> "dict[str, RenderedFrame]":
        """What these cameras see of `sim` now; raises NoGraphics where nothing can be rendered."""
        return {name: self._of(sim, size).frame(name, sim) for name, size in sizes.items()}

    def close(self) -> None:
        while self._made:
            self._made.popitem()[1].close()

    def _of(self, sim: Any, size: ImageSize) -> Renderer:
        key = type(sim), size
        if key not in self._made:
            self._made[key] = Renderer(sim, size.width, size.height)
        return self._made[key]


def graphics_problem() -> str | None:
    """Why frames cannot be rendered here, or None when they can."""
    import mujoco

    try:
        _make(mujoco.MjModel.from_xml_string("<mujoco><worldbody/></mujoco>"), 8, 8).close()
    except NoGraphics as error:
        return error.problem
    return None


def _make(model: Any, width: int, height: int) -> Any:
    import mujoco

    if os.environ.get("MUJOCO_GL") == OFF:
        raise NoGraphics("There is no OpenGL library that renders off screen.", GL_REMEDY)
    try:
        renderer = mujoco.Renderer(model, height, width)
    except Exception as error:
        # mujoco fails here in many shapes (ImportError, AttributeError on None, its own
        # FatalError), all of which mean the same to the user.
        problem = f"OpenGL cannot render off screen here ({type(error).__name__})."
        raise NoGraphics(problem, GL_REMEDY) from error
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
    return renderer
