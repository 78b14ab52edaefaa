"""Messages to MessagePack and back: nothing on the wire can carry code."""

import re
from typing import Any, Generic, TypeVar, get_args

import msgspec

from lefleet_client.wire.errors import BadBody, excerpt
from lefleet_client.wire.limits import MORE_FIELDS, BodyLimits
from lefleet_client.wire.structure import require_structure

T = TypeVar("T")


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_tag):
    """Base of all messages. `type` travels along, so that replies of several kinds share a key.

    Evolution is additive: readers ignore a few unknown fields, and new fields have defaults.
    """


class Body(Generic[T]):
    """Encodes and decodes one kind of message, or a union of them, within limits.

    >>> from lefleet_client.wire import STATUS
    >>> STATUS.decode(b"")
    Traceback (most recent call last):
        ...
    lefleet_client.wire.errors.BadBody: status: it is cut off
    """

    def __init__(self, name: str, kind: Any, limits: BodyLimits) -> None:
        self.name = name
        self.limits = limits
        kinds = get_args(kind) or (kind,)
        self._max_fields = 1 + max(len(msgspec.structs.fields(one)) for one in kinds) + MORE_FIELDS
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kind)

    def encode(self, message: T) -> bytes:
        try:
            data = self._encoder.encode(message)
        except (OverflowError, UnicodeError, TypeError) as error:
            raise BadBody(f"{self.name}: {excerpt(str(error))}") from None
        self._require_size(len(data), self.limits)
        return data

    def decode(self, data: bytes | memoryview, limits: BodyLimits | None = None) -> T:
        """The message; its tensors and images are views of `data`.

        A reader that knows what can be meant gives smaller limits.
        """
        self._require_size(len(data), limits or self.limits)
        try:
            require_structure(data, limits or self.limits, self._max_fields)
            message: T = self._decoder.decode(data)
        except (BadBody, msgspec.DecodeError, UnicodeError) as error:
            raise BadBody(f"{self.name}: {excerpt(str(error))}") from None
        return message

    def _require_size(self, size: int, limits: BodyLimits) -> None:
        if size > limits.max_bytes:
            raise BadBody(f"{self.name}: {size} bytes, above {limits.max_bytes}")
