"""JPEG to RGB and back, through simplejpeg; nobody else knows which library does it."""

import struct
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from lefleet_client.wire.errors import BadImage

_START = b"\xff\xd8"
_FILL = 0xFF
_BASELINE = (0xC0, 0xC1)
# Frames of other kinds. A progressive one can send a decoder over the image again and again.
_OTHER_FRAMES = frozenset(range(0xC2, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN = 0xDA
_MAX_SEGMENTS = 64


def encode_jpeg(image: NDArray[np.uint8], quality: int) -> bytes:
    """4:2:0, because the library's default is larger and slower."""
    data: bytes = simplejpeg.encode_jpeg(
        image, quality=quality, colorspace="RGB", colorsubsampling="420"
    )
    return data


def decode_jpeg(data: memoryview, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """The image, which must have exactly this shape; the library never chooses the size."""
    if (found := _shape(data)) != shape:
        raise BadImage(f"the JPEG is {found}, not {shape}")
    image = np.empty(shape, np.uint8)
    try:
        decoded: NDArray[Any] = simplejpeg.decode_jpeg(
            data, colorspace="RGB", buffer=image, strict=True
        )
    except ValueError as error:
        raise BadImage(f"the JPEG cannot be decoded: {error}") from None
    if decoded.shape != shape:
        raise BadImage(f"the JPEG is {decoded.shape}, not {shape}")
    return image


def _shape(data: memoryview) -> tuple[int, int, int]:
    """Height, width and channels, from the frame header."""
    if data[:2] != _START:
        raise BadImage("the data is no JPEG")
    at = 2
    try:
        for _ in range(_MAX_SEGMENTS):
            prefix, marker, length = struct.unpack_from(">BBH", data, at)
            if prefix != _FILL or marker == _SCAN:
                break
            if marker in _OTHER_FRAMES:
                raise BadImage("the JPEG is not a baseline one")
            if marker in _BASELINE:
                height, width, channels = struct.unpack_from(">HHB", data, at + 5)
                return height, width, channels
            at += 1 if marker == _FILL else 2 + length
    except struct.error:
        raise BadImage("the JPEG is cut off") from None
    raise BadImage("the JPEG has no frame header where one must be")
