"""Messages to MessagePack and back: nothing on the wire can carry code."""

import re
from typing import Any, Generic, TypeVar

import msgspec

from lefleet_client.wire.errors import BadBody

T = TypeVar("T")


def _tag(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=_tag):
    """Base of all messages. `type` travels along, so that replies of several kinds share a key.

    Evolution is additive: readers ignore unknown fields, and new fields have defaults.
    """


class Body(Generic[T]):
    """Encodes and decodes one kind of message, or a union of them, up to `max_bytes`.

    >>> from lefleet_client.wire import STATUS
    >>> STATUS.decode(b"")
    Traceback (most recent call last):
        ...
    lefleet_client.wire.errors.BadBody: status: Input data was truncated
    """

    def __init__(self, name: str, kind: Any, max_bytes: int) -> None:
        self.name = name
        self.max_bytes = max_bytes
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kind)

    def encode(self, message: T) -> bytes:
        try:
            data = self._encoder.encode(message)
        except (OverflowError, UnicodeError, TypeError) as error:
            raise BadBody(f"{self.name}: {error}") from None
        self._require_size(len(data))
        return data

    def decode(self, data: bytes | memoryview) -> T:
        """The message; its tensors and images are views of `data`."""
        self._require_size(len(data))
        try:
            message: T = self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadBody(f"{self.name}: {_short(str(error))}") from None
        return message

    def _require_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise BadBody(f"{self.name}: {size} bytes, above {self.max_bytes}")


def _short(text: str) -> str:
    """The beginning names the fault, the end the field; between them may be megabytes of input."""
    return text if len(text) <= 400 else f"{text[:200]} ... {text[-200:]}"
