"""JPEG by OpenCV, where simplejpeg is not to be had.

OpenCV forgives damage in the middle of the data, where simplejpeg does not.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from lefleet_client.wire.errors import BadImage

_END = b"\xff\xd9"
# A camera's note about its orientation must not turn the image.
_FLAGS = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION


def encode(image: NDArray[np.uint8], quality: int) -> bytes:
    settings = [
        cv2.IMWRITE_JPEG_QUALITY,
        quality,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    ]
    is_encoded, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)
    if not is_encoded:
        raise BadImage(f"OpenCV cannot encode an image of shape {image.shape}")
    return data.tobytes()


def decode(data: memoryview, shape: tuple[int, int, int]) -> NDArray[np.uint8]:  # noqa: ARG001
    # OpenCV fills what is missing with grey, and says nothing.
    if data[-2:] != _END:
        raise BadImage("the JPEG is cut off")
    try:
        decoded = cv2.imdecode(np.frombuffer(data, np.uint8), _FLAGS)
    except cv2.error as error:
        raise BadImage(f"the JPEG cannot be decoded: {error}") from None
    if decoded is None:
        raise BadImage("the JPEG cannot be decoded")
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)
