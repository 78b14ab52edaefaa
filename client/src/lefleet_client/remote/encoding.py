"""A robot's arrays as the body of an observation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
        return OBSERVATION.encode(Observation(images=self.frame.encoded(quality), probe=True))


def split(observation: ArrayFrame, sizes: Sizes) -> SplitFrame:
    """Vectors and images told apart; images get the size that `sizes` has for their key."""
    vectors: dict[str, Tensor] = {}
    images: dict[str, NDArray[np.uint8]] = {}
    for key, value in observation.items():
        array = np.asarray(value)
        if array.ndim == 3:
            images[key] = resized(_image(key, array), sizes.get(key))
        else:
            vectors[key] = _floats(key, array, 1)
    return SplitFrame(vectors, images)


def split_all(observations: Sequence[ArrayFrame], sizes: Sizes) -> tuple[SplitFrame, ...]:
    return tuple(split(one, sizes) for one in observations)


def prefix(name: str, value: NDArray[Any] | None) -> Tensor | None:
    """What is left of a chunk; None and no rows mean the same."""
    if value is None or len(value) == 0:
        return None
    return _floats(name, np.asarray(value), 2)


def _image(key: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype != np.uint8 or array.shape[2] != 3:
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
