"""Images made as small as the policy's input before they travel, where the user asks for it."""

import importlib.util
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lefleet_client.remote.errors import BadObservation, RemoteError

Sizes = Mapping[str, tuple[int, int]]
"""Height and width by policy feature key; an image of another key stays as it is."""


def require_resizing() -> None:
    """Fail before a robot moves if images cannot be resized here."""
    if importlib.util.find_spec("cv2") is None:
        raise RemoteError(
            "resize: OpenCV is needed and not installed; "
            "pip install 'lefleet-client[resize]', or leave resize off"
        )


def resized(key: str, image: NDArray[np.uint8], size: tuple[int, int] | None) -> NDArray[np.uint8]:
    """The image in this height and width; channels keep their order."""
    if size is None or size == image.shape[:2]:
        return image
    import cv2

    height, width = size
    if min(height, width) < 1:
        raise BadObservation(f"{key}: resize to {size} leaves no pixel")
    small = cv2.resize(np.ascontiguousarray(image), (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)
