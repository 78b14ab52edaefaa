"""Cameras of LeFleet's simulation: which ones data and policies have, and whether they can be
rendered here.

Only what collects demonstrations is told which cameras to render. A policy says itself what it
sees, so whatever runs its episodes renders the same cameras in the same sizes.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import msgspec

from lefleet.errors import BadInput
from lefleet.process import NoReport, ask
from lefleet.records import CheckpointContract, ExpertDemos, ExpertGrowth, decode
from lefleet.records.border import Strict
from lefleet.sim.render import (
    CAMERAS,
    DEFAULT_IMAGE,
    GL_REMEDY,
    CameraSizes,
    ImageSize,
    graphics_problem,
    require_cameras,
)

IMAGES = "observation.images."
_CONTRACT = "lefleet.json"
_PATIENCE_S = 120.0
_PROBE = (sys.executable, "-m", "lefleet", "graphics", "probe")
"""A program of its own, as a process that has rendered can no longer be forked."""
_has_rendered = Event()
"""Whether a trial has shown that images can be rendered here: it is not repeated."""


def asked_cameras(source: ExpertDemos | ExpertGrowth) -> CameraSizes:
    """Those that demonstrations are recorded with."""
    return dict.fromkeys(source.cameras, ImageSize(source.image_size, source.image_size))


def require_own_cameras(
    source: ExpertDemos | ExpertGrowth, env: Mapping[str, str], prefix: str = ""
) -> None:
    """Raise BadInput for cameras that do not exist, or that another environment cannot have."""
    require_cameras(source.cameras, f"{prefix}cameras")
    if source.cameras and env:
        raise BadInput(
            f"{prefix}cameras: they are those of LeFleet's simulation, and the episodes run in "
            f"{env.get('type', 'another environment')}.",
            "Leave them out: an environment's own flags say what it shows.",
        )
    if source.image_size != DEFAULT_IMAGE and not source.cameras:
        raise BadInput(
            f"{prefix}image_size: there are no cameras.",
            f"Name some with {prefix}cameras: {', '.join(CAMERAS)}. Or leave it out.",
        )


def camera_features(cameras: CameraSizes) -> dict[str, dict[str, Any]]:
    """How their images lie in a dataset."""
    names = ["height", "width", "channels"]
    return {
        f"{IMAGES}{name}": {"dtype": "video", "shape": (*size, 3), "names": names}
        for name, size in cameras.items()
    }


def seen_cameras(checkpoint: Path) -> dict[str, ImageSize]:
    """Cameras of the simulation that a policy sees, in the sizes of its training data; those that
    the simulation does not have are left out."""
    file = checkpoint / _CONTRACT
    if file.is_file():
        contract: CheckpointContract = decode(file.read_bytes(), CheckpointContract, str(file))
        shapes = contract.cameras
    else:
        config = msgspec.json.decode((checkpoint / "config.json").read_bytes())
        shapes = {
            key: (*feature["shape"][1:], feature["shape"][0])
            for key, feature in (config.get("input_features") or {}).items()
            if feature.get("type") == "VISUAL"
        }
    return _own(shapes)


def recorded_cameras(info: Mapping[str, Any]) -> dict[str, ImageSize]:
    """Cameras of the simulation in a dataset with this description of itself."""
    return _own({key: feature["shape"] for key, feature in info["features"].items()})


def _own(shapes: Mapping[str, Sequence[int]]) -> dict[str, ImageSize]:
    """Of images by feature, each height, width and channels."""
    return {
        key.removeprefix(IMAGES): ImageSize(*shape[:2])
        for key, shape in shapes.items()
        if key.startswith(IMAGES) and key.removeprefix(IMAGES) in CAMERAS
    }


def rendered_cameras(checkpoint: str, env: Mapping[str, str]) -> dict[str, ImageSize]:
    """Cameras that are rendered while the policy in this folder acts; another environment than
    LeFleet's renders by itself."""
    return {} if env else seen_cameras(Path(checkpoint))


class GraphicsReport(Strict, frozen=True, kw_only=True):
    """What the probe found; empty: images can be rendered."""

    problem: str = ""


def print_report() -> int:
    """`lefleet graphics probe`: render an image, and print the report as one line of JSON."""
    report = GraphicsReport(problem=graphics_problem() or "")
    sys.stdout.write(f"\n{msgspec.json.encode(report).decode()}\n")
    return 0


def require_rendering(cameras: CameraSizes, field: str) -> None:
    """Raise BadInput where these cameras cannot be rendered here."""
    if not cameras or _has_rendered.is_set():
        return
    unable = f"{field}: images of {', '.join(cameras)} cannot be rendered here."
    try:
        report = ask(_PROBE, GraphicsReport, _PATIENCE_S)
    except NoReport as error:
        raise BadInput(f"{unable} A trial of OpenGL {error}.", "Try again.") from error
    if report.problem:
        raise BadInput(f"{unable} {report.problem}", GL_REMEDY)
    _has_rendered.set()
