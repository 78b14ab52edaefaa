"""What each column of a policy's inputs and outputs means: order maps to motors."""

from typing import Annotated

from msgspec import Meta, Struct

from lefleet_client.wire.limits import MAX_FEATURES, Name, Names, Text

Side = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Fps = Annotated[float, Meta(gt=0)]
VectorNames = Annotated[dict[Name, Names], Meta(max_length=MAX_FEATURES)]
CameraShapes = Annotated[dict[Name, tuple[Side, Side, Side]], Meta(max_length=MAX_FEATURES)]


class Contract(Struct, frozen=True, kw_only=True):
    """The contract of a checkpoint; names are in the order of the columns."""

    action_names: Names
    vectors: VectorNames
    cameras: CameraShapes
    fps: Fps
    policy_type: Text
    robot_type: Text
    digest: Text
