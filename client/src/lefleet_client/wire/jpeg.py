"""JPEG to RGB and back; no other module knows which library does it.

simplejpeg is the faster one. It has no build for every robot's computer; there OpenCV is used.
"""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lefleet_client.wire.errors import BadImage, excerpt
from lefleet_client.wire.jpeg_markers import jpeg_shape


class SimpleJpegCodec:
    """JPEG by simplejpeg."""

    def __init__(self) -> None:
        self._simplejpeg: Any = importlib.import_module("simplejpeg")

    def encode(self, image: NDArray[np.uint8], quality: int) -> bytes:
        data: bytes = self._simplejpeg.encode_jpeg(
            image, quality=quality, colorspace="RGB", colorsubsampling="420"
        )
        return data

    def decode(self, data: memoryview, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
        image = np.empty(shape, np.uint8)
        try:
            decoded: NDArray[np.uint8] = self._simplejpeg.decode_jpeg(
                data, colorspace="RGB", buffer=image, strict=True
            )
        except ValueError as error:
            raise BadImage(f"the JPEG cannot be decoded: {excerpt(str(error))}") from None
        return image if decoded.shape == shape else decoded


class OpenCvCodec:
    """JPEG by OpenCV. It accepts damage in the middle of the data, where simplejpeg does not."""

    def __init__(self) -> None:
        self._cv2: Any = importlib.import_module("cv2")

    def encode(self, image: NDArray[np.uint8], quality: int) -> bytes:
        cv2 = self._cv2
        settings = [
            cv2.IMWRITE_JPEG_QUALITY,
            quality,
            cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
            cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
        ]
        is_encoded, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), settings)
        if not is_encoded:
            raise BadImage(f"OpenCV cannot encode an image of shape {image.shape}")
        encoded: bytes = data.tobytes()
        return encoded

    def decode(self, data: memoryview, _: tuple[int, int, int]) -> NDArray[np.uint8]:
        cv2 = self._cv2
        # A camera's note about its orientation must not turn the image.
        flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        try:
            decoded = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error as error:
            raise BadImage(f"the JPEG cannot be decoded: {excerpt(str(error))}") from None
        if decoded is None:
            raise BadImage("the JPEG cannot be decoded")
        return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)


_codec: SimpleJpegCodec | OpenCvCodec
try:
    _codec = SimpleJpegCodec()
except ImportError:
    _codec = OpenCvCodec()


def encode_jpeg(image: NDArray[np.uint8], quality: int) -> bytes:
    """4:2:0, because 4:4:4 is larger and slower."""
    return _codec.encode(image, quality)


def decode_jpeg(data: memoryview, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """The image, which must have exactly this shape; the library never chooses the size."""
    if (found := jpeg_shape(data)) != shape:
        raise BadImage(f"the JPEG is {found}, not {shape}")
    image = _codec.decode(data, shape)
    if image.shape != shape:
        raise BadImage(f"the JPEG is {image.shape}, not {shape}")
    return image
