"""What a transport does; everything above this seam works on any network.

Threads: callbacks run on threads of the transport, one call at a time for each declaration. They
must return soon: samples queue up behind a slow one and grow old. `OnSample` and `OnPresence` only
store what came, or set an event. What a callback raises is logged and goes no further. A call that
is in flight when its declaration is closed may still end.

Any thread may call a transport. Nothing that a transport does blocks on a slow or frozen remote:
publications are dropped, and questions have a time-out.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lefleet_client.transport.errors import AnswerFailed, NoAnswer

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Copyable(Protocol):
    """Bytes in the network's own memory."""

    def __len__(self) -> int: ...

    def to_bytes(self) -> bytes: ...


class Sample:
    """One publication; without an attachment that is empty.

    A large payload is copied when it is first read: one that is refused for its size or its
    header costs nothing.
    """

    def __init__(self, key: str, payload: bytes | Copyable, attachment: bytes) -> None:
        self.key = key
        self.attachment = attachment
        self.size = len(payload)
        self._payload = payload

    @property
    def payload(self) -> bytes:
        if not isinstance(self._payload, bytes):
            self._payload = self._payload.to_bytes()
        return self._payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and self._contents() == other._contents()

    def __hash__(self) -> int:
        return hash(self._contents())

    def __repr__(self) -> str:
        return f"Sample(key={self.key!r}, {self.size} bytes, attachment={self.attachment!r})"

    def _contents(self) -> tuple[str, bytes, bytes]:
        return self.key, self.payload, self.attachment


@dataclass(frozen=True)
class Question:
    """A question; `key` is the concrete one that is asked."""

    key: str
    payload: bytes


@dataclass(frozen=True)
class Reply:
    """An answer; `key` tells whose it is."""

    key: str
    payload: bytes


@dataclass(frozen=True)
class Answers:
    """All that came back; with `is_complete` no further answer was going to come."""

    replies: tuple[Reply, ...]
    failures: int
    is_complete: bool


@dataclass(frozen=True)
class Qos:
    """How publications travel. There is no choice under congestion: they are dropped.

    Blocking would let one dead link stall a control loop, or a server with all its robots.
    """

    is_reliable: bool
    is_urgent: bool


OBSERVATION = Qos(is_reliable=False, is_urgent=False)
"""Large and soon replaced by a newer one."""

ACTION = Qos(is_reliable=True, is_urgent=True)
"""Small and awaited: sent at once, ahead of other traffic."""

OnSample = Callable[[Sample], object]
"""Returns True if the sample was of use: a transport takes its time with a flood of others."""
OnQuestion = Callable[[Question], bytes]
OnPresence = Callable[[str, bool], None]
"""Key, and whether it is alive; the same change may be reported twice."""


class Declared(Protocol):
    """Something that a transport does until it is closed; closing twice is fine.

    Declare several on an `ExitStack`, so that one that fails closes those before it.
    """

    def close(self) -> None: ...


class Publisher(Declared, Protocol):
    """Publishes to one key; returns at once, also without a subscriber."""

    def put(self, payload: bytes, attachment: bytes) -> None: ...


class Transport(Protocol):
    """One node of a network. Closing it closes all that it declared."""

    def publisher(self, key: str, qos: Qos) -> Publisher: ...

    def subscribe(self, pattern: str, on_sample: OnSample) -> Declared: ...

    def serve(self, pattern: str, on_question: OnQuestion) -> Declared:
        """Answer questions. When `on_question` raises, the asker learns that it failed, not why."""

    def ask(self, pattern: str, payload: bytes, timeout_s: float) -> Answers:
        """Ask all who serve a matching key, and wait for all answers or the time-out."""

    def announce(self, key: str) -> Declared:
        """Be present under this key, until closed or dead."""

    def watch(self, pattern: str, on_presence: OnPresence) -> Declared:
        """Be called for each key that is present, now and from now on."""

    def present(self, pattern: str, timeout_s: float) -> frozenset[str]:
        """The keys that are present; NoAnswer where nothing came in time, which proves nothing."""

    def close(self) -> None: ...


def attempt(what: str, callback: Callable[..., T], *values: object) -> T | None:
    """The callback's result; None when it raised, which is logged and goes no further."""
    try:
        return callback(*values)
    except Exception:  # noqa: BLE001 - a transport's thread serves others too
        _LOG.exception("%s", what)
        return None


def ask_one(transport: Transport, key: str, payload: bytes, timeout_s: float) -> bytes:
    """Ask the one who serves this key."""
    answers = transport.ask(key, payload, timeout_s)
    if answers.replies:
        return answers.replies[0].payload
    if answers.failures:
        raise AnswerFailed(f"{key}: the other side failed to answer; its log says why")
    why = "no node serves it" if answers.is_complete else f"no answer within {timeout_s:g} s"
    raise NoAnswer(f"{key}: {why}")


def is_gone(transport: Transport, key: str, timeout_s: float) -> bool:
    """Whether this key is not present, by two answers in a row.

    One answer is not enough: Zenoh's was empty once in 16,000 questions about a key that was. Two
    are not enough either to end what works: they come at once, and a lost link takes longer.
    """
    return not any(transport.present(key, timeout_s / 2) for _ in range(2))
