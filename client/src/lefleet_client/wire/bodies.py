"""Messages to MessagePack and back: nothing on the wire can carry code."""

from typing import Any, Generic, TypeVar

import msgspec

from lefleet_client.wire.chunk import ActionChunk
from lefleet_client.wire.errors import BadBody
from lefleet_client.wire.event import Event
from lefleet_client.wire.limits import MAX_BODY_BYTES, MAX_CONTROL_BYTES
from lefleet_client.wire.observation import Observation
from lefleet_client.wire.session import Reset, ResetReply, SessionReply, SessionRequest
from lefleet_client.wire.status import Status

T = TypeVar("T")


class Body(Generic[T]):
    """One kind of body: what may be in it, and how large it may be.

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
    """The beginning says what is wrong, the end where; between them may be megabytes of input."""
    return text if len(text) <= 400 else f"{text[:200]} ... {text[-200:]}"


OBSERVATION: Body[Observation] = Body("observation", Observation, MAX_BODY_BYTES)
CHUNK: Body[ActionChunk] = Body("chunk", ActionChunk, MAX_CONTROL_BYTES)
EVENT: Body[Event] = Body("event", Event, MAX_CONTROL_BYTES)
STATUS: Body[Status] = Body("status", Status, MAX_CONTROL_BYTES)
SESSION_REQUEST: Body[SessionRequest] = Body("session", SessionRequest, MAX_CONTROL_BYTES)
SESSION_REPLY: Body[SessionReply] = Body("session reply", SessionReply, MAX_CONTROL_BYTES)
RESET: Body[Reset] = Body("reset", Reset, MAX_CONTROL_BYTES)
RESET_REPLY: Body[ResetReply] = Body("reset reply", ResetReply, MAX_CONTROL_BYTES)
