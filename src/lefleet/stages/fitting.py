"""Whether data and environment fit together: names, shapes and rate, as pure functions."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lefleet.stages.contract import is_camera, policy_features


class Misfit(NamedTuple):
    """What differs. One that is `fatal` makes an evaluation fail."""

    text: str
    fatal: bool


def misfits(
    info: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], fps: int
) -> list[Misfit]:
    """Of a dataset's `info` and the `shapes` that an environment shows to a policy.

    A policy takes all observations of its data as inputs, so an environment may show more, not
    less. LeRobot's policies differ in whether they bear images of another size.
    """
    found = []
    for key, feature in policy_features(info).items():
        wanted, is_image = _sides(feature["shape"]), is_camera(feature)
        if key not in shapes:
            there = ", ".join(sorted(one for one in shapes if one != "action")) or "nothing"
            found.append(Misfit(f"the data has {key}, the environment shows {there}", True))
        elif wanted != (shown := _sides(shapes[key])):
            sizes = f"{_words(wanted)} in the data and {_words(shown)} in the environment"
            found.append(Misfit(f"{key} has {sizes}", not is_image))
    if fps and info.get("fps") and int(info["fps"]) != fps:
        rates = f"{info['fps']} frames per second, the environment {fps} steps"
        found.append(Misfit(f"the data has {rates}", False))
    return found


def _sides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of a vector its length; of an image height, width and channels, whichever comes first."""
    sides = tuple(int(side) for side in shape)
    if len(sides) == 3 and sides[0] < min(sides[1:]):
        return (*sides[1:], sides[0])
    return sides


def _words(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) + (" numbers" if len(shape) == 1 else "")
