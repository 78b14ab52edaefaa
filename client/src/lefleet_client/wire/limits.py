"""Schema versions, and how large anything from the network may be.

Sizes are checked before memory is taken, and before work is done. These limits hold for everybody;
an open session has smaller ones for its observations, which come from the policy's contract.
"""

from typing import Annotated, NamedTuple

from msgspec import Meta

from lefleet_client.wire.errors import NoCommonVersion

SCHEMA_VERSION = 1
OLDEST_VERSION = 1

KIB = 1 << 10
MIB = 1 << 20

MAX_BODY_BYTES = 64 * MIB
"""An observation with raw images: four 1080p cameras are 25 MB."""

MAX_MESSAGE_BYTES = MAX_BODY_BYTES + MIB
"""A body with its header and the transport's own framing."""

MAX_TENSOR_BYTES = 16 * MIB
MAX_DIMENSIONS = 8
MAX_IMAGE_PIXELS = 4096 * 3072
MAX_OBSERVATION_PIXELS = 3 * MAX_IMAGE_PIXELS
"""All images of an observation, or small JPEGs could ask for gigabytes."""

MAX_FEATURES = 64
MAX_HISTORY = 64
MAX_CLIENTS = 4096
"""In a status."""
MAX_COLUMNS = 1024
MAX_REMARKS = 16

MAX_DEPTH = 12
"""Lists and maps inside each other: an observation needs 6, the rest is for later fields."""

MORE_FIELDS = 8
"""Unknown fields of a message: those that a newer sender has."""

LABEL_LENGTH, REMARK_LENGTH, TASK_LENGTH, TEXT_LENGTH = 256, 1024, 2048, 16384
"""In characters."""
_UTF8 = 4
"""Bytes of a character at most."""
MAX_KEY_BYTES = _UTF8 * LABEL_LENGTH
MAX_TASK_BYTES = _UTF8 * TASK_LENGTH
MAX_TEXT_BYTES = _UTF8 * TEXT_LENGTH

Name = Annotated[str, Meta(min_length=1, max_length=LABEL_LENGTH)]
Label = Annotated[str, Meta(max_length=LABEL_LENGTH)]
"""A name that may be empty."""
TaskText = Annotated[str, Meta(max_length=TASK_LENGTH)]
Text = Annotated[str, Meta(max_length=TEXT_LENGTH)]
"""Sentences for a person to read."""
Remark = Annotated[str, Meta(max_length=REMARK_LENGTH)]
"""One sentence, as a table shows it."""
Remarks = Annotated[tuple[Remark, ...], Meta(max_length=MAX_REMARKS)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
# msgspec has no bound above 63 bits, and MessagePack has no integer above 64.
U64 = Annotated[int, Meta(ge=0)]
I64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# An upper bound also refuses what is infinite or no number.
Duration = Annotated[float, Meta(ge=0, le=1e12)]
Load = Annotated[float, Meta(ge=0, le=1)]
Names = Annotated[tuple[Name, ...], Meta(max_length=MAX_COLUMNS)]


class BodyLimits(NamedTuple):
    """What a body may have: bytes in all, items with those inside them, bytes of its longest text.

    Keys and values count as items. `max_items` bounds the work of reading, so it is what a message
    can need and some more, for fields that a newer sender adds.
    """

    max_bytes: int
    max_items: int
    max_text: int


QUESTION = BodyLimits(64 * KIB, max_items=64, max_text=MAX_TASK_BYTES)
SESSION_QUESTION = QUESTION._replace(max_items=4096)
"""It has the names of all columns and cameras, and tags."""
ANSWER = BodyLimits(MAX_TEXT_BYTES + 4 * KIB, max_items=64, max_text=MAX_TEXT_BYTES)
"""Events, and replies that are a reason."""
SESSION_ANSWER = BodyLimits(256 * KIB, max_items=2 * 4096, max_text=MAX_TEXT_BYTES)
"""The contract has as many names as the question; the rest are warnings."""
STATUS_ANSWER = BodyLimits(
    SESSION_ANSWER.max_bytes + MAX_CLIENTS * KIB,
    SESSION_ANSWER.max_items + MAX_CLIENTS * 32,
    MAX_TASK_BYTES,
)
ROBOT_ANSWER = BodyLimits(96 * KIB, max_items=128, max_text=MAX_TASK_BYTES)
"""All texts at their longest are 85 KiB."""
CHUNK_ANSWER = BodyLimits(
    64 * KIB + 2 * 512 * MAX_COLUMNS * 4, max_items=128, max_text=MAX_TASK_BYTES
)
"""Two tensors of 512 steps."""


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
