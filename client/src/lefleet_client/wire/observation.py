"""What a robot sends: everything that a stateless server needs for one chunk."""

from typing import Annotated

from msgspec import Meta, Struct, field

from lefleet_client.wire.bodies import Body, Message
from lefleet_client.wire.errors import BadBody, BadTensor
from lefleet_client.wire.image import Image
from lefleet_client.wire.limits import (
    MAX_BODY_BYTES,
    MAX_FEATURES,
    MAX_HISTORY,
    MAX_OBSERVATION_PIXELS,
    U64,
    Count,
    Name,
    Text,
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
    task: Text = ""
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


OBSERVATION: Body[Observation] = Body("observation", Observation, MAX_BODY_BYTES)


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
