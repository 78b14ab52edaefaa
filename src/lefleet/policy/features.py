"""What a policy's config says about its inputs and outputs."""

from dataclasses import dataclass
from typing import Any

from lerobot.configs import FeatureType

from lefleet.errors import BadInput

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Features:
    """Sizes of vectors, and of images as height, width and channels, by feature key."""

    vector_sizes: dict[str, int]
    cameras: dict[str, Shape]
    action_size: int


def features_of(config: Any) -> Features:
    """The inputs that a robot sends; cameras that only fill a policy's empty places are none."""
    inputs = config.input_features or {}
    action = config.action_feature
    if action is None:
        raise BadInput("model: its config.json has no action among output_features.")
    return Features(
        vector_sizes={
            key: int(feature.shape[0])
            for key, feature in inputs.items()
            if feature.type in (FeatureType.STATE, FeatureType.ENV)
        },
        cameras={
            key: height_width_channels(feature.shape)
            for key, feature in inputs.items()
            if feature.type is FeatureType.VISUAL and "empty_camera" not in key
        },
        action_size=int(action.shape[0]),
    )


def height_width_channels(shape: tuple[int, ...]) -> Shape:
    """An image's shape as robots have it; LeRobot's configs have channels first.

    >>> height_width_channels((3, 480, 640))
    (480, 640, 3)
    """
    first, second, third = shape
    return (second, third, first) if first < min(second, third) else (first, second, third)
