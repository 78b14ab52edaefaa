"""The header: 27 bytes beside each message, all that routing and correlation read."""

import struct
from enum import IntEnum
from typing import NamedTuple

from lefleet_client.wire.errors import BadHeader
from lefleet_client.wire.limits import OLDEST_VERSION, SCHEMA_VERSION

_LAYOUT = struct.Struct("<HBQIqI")
HEADER_BYTES = _LAYOUT.size


class MessageType(IntEnum):
    """What the body is."""

    OBSERVATION = 1
    CHUNK = 2
    EVENT = 3


class Header(NamedTuple):
    """Which request this is, or answers; only the robot that wrote
    `client_mono_ns` can read it.

    >>> Header(MessageType.CHUNK, seq_id=7, episode_id=0, client_mono_ns=1).pack().hex()[:6]
    '010002'
    """

    message_type: MessageType
    seq_id: int
    episode_id: int
    client_mono_ns: int
    session_epoch: int = 0
    schema_version: int = SCHEMA_VERSION

    def pack(self) -> bytes:
        try:
            return _LAYOUT.pack(
                self.schema_version,
                self.message_type,
                self.seq_id,
                self.episode_id,
                self.client_mono_ns,
                self.session_epoch,
            )
        except struct.error as error:
            raise BadHeader("range", f"header: {error}") from None

    @classmethod
    def unpack(cls, data: bytes) -> "Header":
        if len(data) != HEADER_BYTES:
            raise BadHeader("length", f"header: {len(data)} bytes, not {HEADER_BYTES}")
        version, kind, seq, episode, mono, epoch = _LAYOUT.unpack(data)
        if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
            raise BadHeader("version", f"header: schema version {version} is not known")
        try:
            message_type = MessageType(kind)
        except ValueError:
            raise BadHeader("type", f"header: message type {kind} is not known") from None
        return cls(message_type, seq, episode, mono, epoch, version)
