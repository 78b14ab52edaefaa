"""JPEG by simplejpeg."""

from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from lefleet_client.wire.errors import BadImage


def encode(image: NDArray[np.uint8], quality: int) -> bytes:
    data: bytes = simplejpeg.encode_jpeg(
        image, quality=quality, colorspace="RGB", colorsubsampling="420"
    )
    return data


def decode(data: memoryview, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    image = np.empty(shape, np.uint8)
    try:
        decoded: NDArray[Any] = simplejpeg.decode_jpeg(
            data, colorspace="RGB", buffer=image, strict=True
        )
    except ValueError as error:
        raise BadImage(f"the JPEG cannot be decoded: {error}") from None
    return image if decoded.shape == shape else decoded
