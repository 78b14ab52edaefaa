"""Pictures inside a body: RGB, uint8, height x width x 3, on both ends."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from lefleet_client.wire.errors import BadImage
from lefleet_client.wire.jpeg import decode_jpeg, encode_jpeg
from lefleet_client.wire.limits import KIB, MAX_IMAGE_PIXELS
from lefleet_client.wire.tensor import octets

A = TypeVar("A")
B = TypeVar("B")

ImageCodec = Literal["jpeg", "raw"]

_CHANNELS = 3
_MAX_JPEG_SIDE = 65500
_MORE_JPEG_BYTES = 128 * KIB
"""Tables, and what cameras and programs note. Noise of the best quality is smaller than twice its
pixels."""


class Image(Struct, frozen=True):
    """An image as it travels. Its shape is checked here, a JPEG's own when it is decoded."""

    codec: ImageCodec
    shape: tuple[int, int, int]
    data: memoryview

    def __post_init__(self) -> None:
        if self.codec not in get_args(ImageCodec):
            raise BadImage(
                f"codec {self.codec[:40]!r} is not one of {', '.join(get_args(ImageCodec))}"
            )
        height, width, channels = self.shape
        if height < 1 or width < 1 or channels != _CHANNELS:
            raise BadImage(f"shape {self.shape} is not height x width x {_CHANNELS}")
        if height * width > MAX_IMAGE_PIXELS:
            raise BadImage(f"shape {self.shape} is above {MAX_IMAGE_PIXELS} pixels")
        expected = prod(self.shape)
        if self.codec == "raw" and self.data.nbytes != expected:
            raise BadImage(f"shape {self.shape} is {expected} bytes, data has {self.data.nbytes}")
        most = 2 * expected + _MORE_JPEG_BYTES
        if self.data.nbytes > most:
            raise BadImage(
                f"a JPEG of shape {self.shape} needs at most {most} bytes, data has "
                f"{self.data.nbytes}"
            )

    @property
    def pixels(self) -> int:
        return self.shape[0] * self.shape[1]


def encode_image(array: NDArray[Any], quality: int) -> Image:
    """RGB pixels as an image: JPEG of this quality (1 to 100), or raw with quality 0.

    A raw image shares the array's memory where the layout allows it.
    """
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != _CHANNELS:
        raise BadImage(f"uint8 of height x width x 3 is needed, not {array.dtype} {array.shape}")
    if not 0 <= quality <= 100:
        raise BadImage(f"quality {quality} is not 0 (raw) to 100")
    height, width, channels = array.shape
    shape = (height, width, channels)
    pixels = np.ascontiguousarray(array)
    if quality == 0:
        return Image("raw", shape, octets(pixels))
    if not 1 <= min(height, width) <= max(height, width) <= _MAX_JPEG_SIDE:
        raise BadImage(f"shape {shape} does not fit a JPEG")
    return Image("jpeg", shape, memoryview(encode_jpeg(pixels, quality)))


def decode_image(image: Image) -> NDArray[np.uint8]:
    """RGB pixels. Takes milliseconds for a JPEG: not for the thread that infers."""
    if image.codec == "jpeg":
        return decode_jpeg(image.data, image.shape)
    pixels = np.frombuffer(image.data, np.uint8).reshape(image.shape)
    pixels.flags.writeable = False
    return pixels


def encode_images(arrays: Mapping[str, NDArray[Any]], quality: int) -> dict[str, Image]:
    """Several images, JPEGs in parallel."""
    code = partial(encode_image, quality=quality)
    return (
        _in_parallel(code, arrays) if quality else {key: code(one) for key, one in arrays.items()}
    )


def decode_images(images: Mapping[str, Image]) -> dict[str, NDArray[np.uint8]]:
    """Several images, JPEGs in parallel."""
    if all(image.codec == "raw" for image in images.values()):
        return {key: decode_image(image) for key, image in images.items()}
    return _in_parallel(decode_image, images)


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="jpeg")


_pool = _new_pool()
"""Threads `jpeg_*`, started when first needed; they only code images."""


def _replace_pool() -> None:
    global _pool  # noqa: PLW0603 - a forked child does not inherit threads
    _pool = _new_pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_pool)


def _in_parallel(code: Callable[[A], B], images: Mapping[str, A]) -> dict[str, B]:
    """`code` of every image by its key; the calling thread does its share.

    JPEG is coded outside Python's lock, so other cores can help.
    """
    if len(images) < 2:
        return {key: code(image) for key, image in images.items()}
    (first, own), *others = images.items()
    futures = {key: _pool.submit(code, image) for key, image in others}
    coded = {first: code(own)}
    return coded | {key: future.result() for key, future in futures.items()}
