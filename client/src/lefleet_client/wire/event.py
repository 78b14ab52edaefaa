"""What a server says unasked, so that a robot learns it at once and not by a time-out."""

from lefleet_client.wire.base import Message
from lefleet_client.wire.limits import U64, Duration, Text


class Draining(Message, frozen=True, kw_only=True):
    """The server is about to go: find another one."""


class RequestFailed(Message, frozen=True, kw_only=True):
    """No chunk will come for this request."""

    seq_id: U64
    reason: Text


class Probed(Message, frozen=True, kw_only=True):
    """A probe arrived, and was decoded."""

    seq_id: U64
    decode_ms: Duration


REPLACED = "replaced"
"""How the reason begins when another session of the same client took the place of this one."""


class SessionClosed(Message, frozen=True, kw_only=True):
    """There is no session: it ended, or there never was one."""

    reason: Text


Event = Draining | Probed | RequestFailed | SessionClosed
