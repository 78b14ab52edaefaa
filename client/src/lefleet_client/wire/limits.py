"""Schema versions, and how large anything from the network may be.

Sizes are checked before memory is taken. Each limit is far above what a robot sends: four raw 1080p
cameras are 25 MB.
"""

from typing import Annotated

from msgspec import Meta

from lefleet_client.wire.errors import NoCommonVersion

SCHEMA_VERSION = 1
OLDEST_VERSION = 1

MIB = 1 << 20

MAX_BODY_BYTES = 64 * MIB
"""An observation with raw images."""

MAX_CONTROL_BYTES = 4 * MIB
"""Every other body."""

MAX_MESSAGE_BYTES = MAX_BODY_BYTES + MIB
"""A body with its header and the transport's own framing."""

MAX_TENSOR_BYTES = 16 * MIB
MAX_DIMENSIONS = 8
MAX_IMAGE_PIXELS = 8192 * 4096
MAX_OBSERVATION_PIXELS = 2 * MAX_IMAGE_PIXELS
"""All images of an observation, or small JPEGs could ask for gigabytes."""

MAX_FEATURES = 64
MAX_HISTORY = 64

Name = Annotated[str, Meta(min_length=1, max_length=256)]
Text = Annotated[str, Meta(max_length=16384)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
# msgspec has no bound above 63 bits, and MessagePack has no integer above 64.
U64 = Annotated[int, Meta(ge=0)]
I64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Duration = Annotated[float, Meta(ge=0)]
Load = Annotated[float, Meta(ge=0, le=1)]
Names = Annotated[tuple[Name, ...], Meta(max_length=1024)]


def agree(oldest: int, newest: int) -> int:
    """The newest version that both sides know; the arguments are what the other side knows.

    >>> agree(1, 3)
    1
    """
    version = min(newest, SCHEMA_VERSION)
    if version < max(oldest, OLDEST_VERSION):
        raise NoCommonVersion(
            f"schema versions {oldest} to {newest} are offered, "
            f"{OLDEST_VERSION} to {SCHEMA_VERSION} are known here: update the older side"
        )
    return version
