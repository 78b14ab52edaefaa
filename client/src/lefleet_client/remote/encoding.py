"""A robot's arrays as the body of an observation."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from lefleet_client.remote.errors import BadObservation
from lefleet_client.remote.resize import Sizes, resized
from lefleet_client.wire import (
    OBSERVATION,
    Frame,
    Image,
    Observation,
    Tensor,
    WireError,
    encode_images,
    encode_tensor,
)

Codec = Literal["jpeg", "raw"]
ArrayFrame = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class SplitFrame:
    """One moment: float32 vectors and uint8 RGB images, by policy feature key."""

    vectors: dict[str, Tensor]
    images: dict[str, NDArray[np.uint8]]

    def encoded(self, quality: int) -> dict[str, Image]:
        return encode_images(self.images, quality)


@dataclass(frozen=True)
class Request:
    """An observation before its images are encoded; `rest` is all but the frames."""

    frame: SplitFrame
    history: tuple[SplitFrame, ...]
    rest: Mapping[str, Any]

    def encode(self, quality: int) -> bytes:
        """The body with JPEG images of this quality, or raw ones with quality 0."""
        try:
            history = tuple(
                Frame(vectors=one.vectors, images=one.encoded(quality)) for one in self.history
            )
            body = OBSERVATION.encode(
                Observation(
                    vectors=self.frame.vectors,
                    images=self.frame.encoded(quality),
                    history=history,
                    **self.rest,
                )
            )
            # Limits are checked by readers. This one copies nothing, and is here to be told.
            OBSERVATION.decode(body)
        except WireError as error:
            raise BadObservation(f"the observation cannot be sent: {error}") from None
        return body

    def encode_probe(self, quality: int) -> bytes:
        try:
            return OBSERVATION.encode(Observation(images=self.frame.encoded(quality), probe=True))
        except WireError as error:
            raise BadObservation(f"the images cannot be sent: {error}") from None


def split(observation: ArrayFrame, sizes: Sizes, name: str = "observation") -> SplitFrame:
    """Vectors and images told apart; images get the size that `sizes` has for their key."""
    if not isinstance(observation, Mapping):
        raise BadObservation(
            f"{name}: arrays by policy feature key are needed, not {type(observation).__name__}"
        )
    vectors: dict[str, Tensor] = {}
    images: dict[str, NDArray[np.uint8]] = {}
    for key, value in observation.items():
        array = _array(key, value)
        if array.ndim == 3:
            images[key] = resized(key, _image(key, array), sizes.get(key))
        else:
            vectors[key] = _floats(key, array, 1)
    return SplitFrame(vectors, images)


def split_all(observations: Sequence[ArrayFrame], sizes: Sizes) -> tuple[SplitFrame, ...]:
    return tuple(split(one, sizes, f"history[{index}]") for index, one in enumerate(observations))


def whole(name: str, value: SupportsIndex, bits: int) -> int:
    """A number that counts, of Python's or numpy's kind."""
    try:
        number = operator.index(value)
    except TypeError:
        raise BadObservation(
            f"{name}: a whole number is needed, not {type(value).__name__}"
        ) from None
    if not 0 <= number < 2**bits:
        raise BadObservation(f"{name}: {number} is not 0 to 2**{bits} - 1")
    return number


def prefix(name: str, value: NDArray[Any] | None) -> Tensor | None:
    """What is left of a chunk; None and no rows mean the same."""
    array = _array(name, () if value is None else value)
    return _floats(name, array, 2) if array.size else None


def _array(key: str, value: object) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise BadObservation(f"{key}: {error}") from None


def _image(key: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype != np.uint8 or array.shape[2] != 3 or not array.size:
        raise BadObservation(
            f"{key}: an image is uint8 RGB of height x width x 3, not {array.dtype} {array.shape}"
        )
    return array


def _floats(key: str, array: NDArray[Any], dimensions: int) -> Tensor:
    if array.ndim != dimensions or array.dtype.kind not in "fiub":
        raise BadObservation(
            f"{key}: numbers with {dimensions} dimension{'s' * (dimensions > 1)} are needed, not "
            f"{array.dtype} {array.shape}"
        )
    try:
        return encode_tensor(array.astype(np.float32))
    except WireError as error:
        raise BadObservation(f"{key}: {error}") from None
