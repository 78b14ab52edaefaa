"""How large anything from the network may be; checked before memory is taken for it.

Each is far above what a robot sends: four raw 1080p cameras are 25 MB.
"""

from typing import Annotated

from msgspec import Meta

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
"""All images of an observation together, or small JPEGs could ask for gigabytes."""

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

MAX_FEATURES = 64
MAX_HISTORY = 64
