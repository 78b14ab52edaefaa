"""A robot's features and arrays, and how they become the body of an observation."""

import importlib.util
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from lefleet_client.remote.errors import BadObservation, RemoteError
from lefleet_client.wire import (
    OBSERVATION,
    Contract,
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
"""What a robot sees at one moment, by policy feature key."""
Sizes = Mapping[str, tuple[int, int]]
"""Height and width by policy feature key; an image of another key stays as it is."""
_SIDES = _CHANNELS = 3


@dataclass(frozen=True)
class RobotFeatures:
    """Names are in the order in which the robot sends and executes columns.

    A server compares them with its checkpoint's contract, and refuses a robot whose motors are in
    another order. A program that finds columns `by_name` has no order of its own: it takes the
    contract's, and leaves out what the policy does not look at.
    """

    action_names: tuple[str, ...]
    vectors: Mapping[str, tuple[str, ...]]
    cameras: Mapping[str, tuple[int, int, int]]
    """Height, width and channels by policy feature key."""
    fps: float
    robot_type: str
    by_name: bool = False

    def __post_init__(self) -> None:
        if not self.fps > 0:
            raise ValueError(f"fps: {self.fps!r} is not above 0")
        for key, shape in self.cameras.items():
            if len(shape) != _SIDES or shape[2] != _CHANNELS or min(shape) < 1:
                raise ValueError(f"cameras: {key} is {shape}, not height, width and {_CHANNELS}")

    @classmethod
    def of(cls, contract: Contract) -> "RobotFeatures":
        """The contract's own order, which leaves nothing to compare."""
        return cls(
            action_names=contract.action_names,
            vectors=dict(contract.vectors),
            cameras=dict(contract.cameras),
            fps=contract.fps,
            robot_type=contract.robot_type,
        )

    def facing(self, contract: Contract) -> "RobotFeatures":
        """The features to tell a server of this contract.

        Where a column is missing, the robot's own names stay, and the server says what is missing.
        """
        if not self.by_name:
            return self
        known = {name for names in self.vectors.values() for name in names}
        named = {key: names for key, names in contract.vectors.items() if known.issuperset(names)}
        own = {key: names for key, names in self.vectors.items() if key in contract.vectors}
        is_same = set(self.action_names) == set(contract.action_names)
        return replace(
            self,
            action_names=contract.action_names if is_same else self.action_names,
            vectors={**own, **named},
        )


def announced_cameras(
    robot: RobotFeatures, contract: Contract, resize: bool | Sizes
) -> dict[str, tuple[int, int, int]]:
    """The shapes of a robot's images as a server will get them, not as its cameras take them. A
    size without pixels is refused with the first image."""
    sizes = {key: size for key, size in sent_sizes(resize, contract).items() if min(size) > 0}
    return {
        key: (*sizes[key], shape[2]) if key in sizes else shape
        for key, shape in robot.cameras.items()
    }


def sent_sizes(resize: bool | Sizes, contract: Contract) -> Sizes:
    """The sizes that images of these cameras are sent in; others stay as they are."""
    if isinstance(resize, Mapping):
        return resize
    cameras = contract.cameras if resize else {}
    return {key: (height, width) for key, (height, width, _) in cameras.items()}


@dataclass(frozen=True)
class SplitFrame:
    """One moment: float32 vectors and uint8 RGB images, by policy feature key."""

    vectors: dict[str, Tensor]
    images: dict[str, NDArray[np.uint8]]

    def encoded(self, quality: int) -> dict[str, Image]:
        return encode_images(self.images, quality)


@dataclass(frozen=True)
class ObservationRequest:
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
            # Limits are checked by readers; decoding copies nothing.
            OBSERVATION.decode(body)
        except WireError as error:
            raise BadObservation(f"the observation cannot be sent: {error}") from None
        return body

    def encode_probe(self, quality: int) -> bytes:
        try:
            return OBSERVATION.encode(Observation(images=self.frame.encoded(quality), probe=True))
        except WireError as error:
            raise BadObservation(f"the images cannot be sent: {error}") from None


class ObservationReader:
    """Turns a robot's arrays into frames of a policy whose features are known.

    Images get the size that `sizes` has for their key. A key that neither the contract nor the
    robot's own features have is refused: the policy would never see it.
    """

    def __init__(self, contract: Contract, robot: RobotFeatures | None, sizes: Sizes) -> None:
        own = robot.facing(contract) if robot else RobotFeatures.of(contract)
        self._vectors = sorted({*contract.vectors, *own.vectors})
        self._cameras = sorted({*contract.cameras, *own.cameras})
        self._sizes = sizes

    def frame(self, observation: ArrayFrame, name: str = "observation") -> SplitFrame:
        """Vectors and images apart from each other."""
        if not isinstance(observation, Mapping):
            raise BadObservation(
                f"{name}: arrays by policy feature key are needed, not {type(observation).__name__}"
            )
        vectors: dict[str, Tensor] = {}
        images: dict[str, NDArray[np.uint8]] = {}
        for key, value in observation.items():
            if key in self._cameras:
                images[key] = resized(key, _image(key, value), self._sizes.get(key))
            elif key in self._vectors:
                vectors[key] = _floats(key, _array(key, value), 1)
            else:
                raise BadObservation(
                    f"{key}: the policy does not know it; it takes "
                    f"{', '.join([*self._vectors, *self._cameras])}"
                )
        return SplitFrame(vectors, images)

    def history(self, observations: Sequence[ArrayFrame]) -> tuple[SplitFrame, ...]:
        return tuple(self.frame(one, f"history[{index}]") for index, one in enumerate(observations))


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


def _array(key: str, value: object) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise BadObservation(f"{key}: {error}") from None


def _image(key: str, value: object) -> NDArray[np.uint8]:
    array = _array(key, value)
    is_rgb = array.ndim == _SIDES and array.shape[2] == _CHANNELS and array.size
    if array.dtype != np.uint8 or not is_rgb:
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
