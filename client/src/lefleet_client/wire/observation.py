"""What a robot sends: everything that a stateless server needs for one chunk."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct, field

from lefleet_client.wire.bodies import Body, Message
from lefleet_client.wire.errors import BadBody, BadImage, BadTensor, excerpt
from lefleet_client.wire.image import Image
from lefleet_client.wire.limits import (
    KIB,
    MAX_BODY_BYTES,
    MAX_FEATURES,
    MAX_HISTORY,
    MAX_IMAGE_PIXELS,
    MAX_OBSERVATION_PIXELS,
    MAX_TASK_BYTES,
    U64,
    BodyLimits,
    Count,
    Name,
    TaskText,
)
from lefleet_client.wire.tensor import Tensor, require_floats

Vectors = Annotated[dict[Name, Tensor], Meta(max_length=MAX_FEATURES)]
Images = Annotated[dict[Name, Image], Meta(max_length=MAX_FEATURES)]


class Frame(Struct, frozen=True, kw_only=True):
    """What was seen at one moment, by policy feature key such as `observation.state`."""

    vectors: Vectors = field(default_factory=dict)
    images: Images = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_vectors(self.vectors)


class Observation(Message, frozen=True, kw_only=True):
    """The present frame, and what of the last chunk is still to be executed.

    Prefixes have one row per action that is really left: they are never padded, because padding
    changes what a policy answers. `history` holds earlier frames at control spacing, oldest first.

    A `probe` is decoded and answered with `Probed`, and no policy sees it: that is how a robot
    finds out which image codec is the faster one.
    """

    vectors: Vectors = field(default_factory=dict)
    images: Images = field(default_factory=dict)
    task: TaskText = ""
    inference_delay_steps: Count = 0
    prefix_model: Tensor | None = None
    prefix_robot: Tensor | None = None
    noise_seed: U64 | None = None
    history: Annotated[tuple[Frame, ...], Meta(max_length=MAX_HISTORY)] = ()
    probe: bool = False

    def __post_init__(self) -> None:
        _require_vectors(self.vectors)
        _require_prefixes(self.prefix_model, self.prefix_robot)
        frames = [self.images, *(frame.images for frame in self.history)]
        pixels = sum(image.pixels for images in frames for image in images.values())
        if pixels > MAX_OBSERVATION_PIXELS:
            raise BadBody(f"images: {pixels} pixels, above {MAX_OBSERVATION_PIXELS} in all")


# A vector or image is a key, a map of three fields, and a shape; fields come in key and value.
_ITEMS_PER_FEATURE = 12
_ITEMS_PER_FRAME = 8
_MORE_ITEMS = 96
_MORE_BYTES = 64 * KIB
_MORE_IMAGE_BYTES = 4 * KIB
"""The tables of a JPEG: a small one is larger than its pixels."""


def _body_limits(max_bytes: int, frames: int, features: int) -> BodyLimits:
    items = frames * (_ITEMS_PER_FRAME + _ITEMS_PER_FEATURE * features) + _MORE_ITEMS
    return BodyLimits(min(max_bytes, MAX_BODY_BYTES), items, MAX_TASK_BYTES)


OBSERVATION: Body[Observation] = Body(
    "observation", Observation, _body_limits(MAX_BODY_BYTES, 1 + MAX_HISTORY, 2 * MAX_FEATURES)
)


class ObservationLimits(NamedTuple):
    """What an observation of one session can need; `pixels` are those of each camera at most."""

    body: BodyLimits
    pixels: Mapping[str, int]
    n_obs_steps: int


def observation_limits(
    *,
    vectors: Mapping[str, int],
    cameras: Mapping[str, int],
    n_obs_steps: int,
    chunk_size: int,
    columns: int,
) -> ObservationLimits:
    """The limits of a session, from its policy's sizes.

    `vectors` has the columns of each vector, `cameras` the pixels that each camera may have: those
    that the policy uses, and those that the robot has announced.

    >>> limits = observation_limits(
    ...     vectors={"observation.state": 6},
    ...     cameras={"observation.images.top": 640 * 480},
    ...     n_obs_steps=1,
    ...     chunk_size=50,
    ...     columns=6,
    ... )
    >>> limits.body.max_bytes
    993656
    """
    pixels = {key: min(most, MAX_IMAGE_PIXELS) for key, most in cameras.items()}
    images = sum(3 * most + _MORE_IMAGE_BYTES for most in pixels.values())
    prefixes = 2 * chunk_size * columns * 4
    size = n_obs_steps * (images + 4 * sum(vectors.values())) + prefixes + _MORE_BYTES
    body = _body_limits(size, n_obs_steps, len(vectors) + len(cameras))
    return ObservationLimits(body, pixels, n_obs_steps)


def decode_observation(data: bytes | memoryview, limits: ObservationLimits) -> Observation:
    """An observation within the limits of its session; no image of it is decoded yet.

    Images of cameras that the limits do not know are left to the caller.
    """
    observation = OBSERVATION.decode(data, limits.body)
    earlier = len(observation.history)
    if earlier >= limits.n_obs_steps:
        raise BadBody(
            f"observation: history: {earlier} frames, and the policy looks at "
            f"{limits.n_obs_steps - 1} before the present one"
        )
    for images in (observation.images, *(frame.images for frame in observation.history)):
        for key, image in images.items():
            if image.pixels > (most := limits.pixels.get(key, MAX_IMAGE_PIXELS)):
                height, width, _ = image.shape
                raise BadImage(
                    f"{excerpt(key)}: {width} x {height} is more than {most} pixels; resize it on "
                    "the robot"
                )
    return observation


def _require_vectors(vectors: dict[str, Tensor]) -> None:
    for name, tensor in vectors.items():
        require_floats(tensor, 1, f"vectors[{name[:80]!r}]")


def _require_prefixes(model: Tensor | None, robot: Tensor | None) -> None:
    if model is not None:
        require_floats(model, 2, "prefix_model")
    if robot is not None:
        require_floats(robot, 2, "prefix_robot")
    if model is not None and robot is not None and model.shape != robot.shape:
        raise BadTensor(f"prefix_model is {model.shape}, prefix_robot is {robot.shape}")
