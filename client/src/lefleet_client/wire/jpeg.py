"""JPEG to RGB and back; nobody else knows which library does it.

simplejpeg is the faster one. It has no build for every robot's computer, and OpenCV stands in
there.
"""

import importlib
import struct

import numpy as np
from numpy.typing import NDArray

from lefleet_client.wire.errors import BadImage

try:
    _library = importlib.import_module("lefleet_client.wire.jpeg_simplejpeg")
except ImportError:
    _library = importlib.import_module("lefleet_client.wire.jpeg_opencv")

_START = b"\xff\xd8"
_FILL = 0xFF
_BASELINE = (0xC0, 0xC1)
# Frames of other kinds. A progressive one can send a decoder over the image again and again.
_OTHER_FRAMES = frozenset(range(0xC2, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN = 0xDA
# Markers that stand alone. What follows them is no length, and a decoder may go on elsewhere.
_ALONE = frozenset((0x00, 0x01, *range(0xD0, 0xDA)))
_MAX_SEGMENTS = 64


def encode_jpeg(image: NDArray[np.uint8], quality: int) -> bytes:
    """4:2:0, because 4:4:4 is larger and slower."""
    data: bytes = _library.encode(image, quality)
    return data


def decode_jpeg(data: memoryview, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """The image, which must have exactly this shape; the library never chooses the size."""
    if (found := _shape(data)) != shape:
        raise BadImage(f"the JPEG is {found}, not {shape}")
    image: NDArray[np.uint8] = _library.decode(data, shape)
    if image.shape != shape:
        raise BadImage(f"the JPEG is {image.shape}, not {shape}")
    return image


def _shape(data: memoryview) -> tuple[int, int, int]:
    """Height, width and channels, from the frame header."""
    if data[:2] != _START:
        raise BadImage("the data is no JPEG")
    at = 2
    try:
        for _ in range(_MAX_SEGMENTS):
            prefix, marker, length = struct.unpack_from(">BBH", data, at)
            if prefix != _FILL or marker == _SCAN or marker in _ALONE:
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
