"""Which OpenGL library MuJoCo may use, settled before MuJoCo is imported.

MuJoCo chooses its library once, at import. Its default needs a screen, and naming a library that
is not installed makes the import itself fail, although simulating needs no graphics at all.
"""

import ctypes
import os
import sys
from collections.abc import Callable

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
