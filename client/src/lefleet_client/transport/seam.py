"""What a transport does; everything above this seam works on any network.

Threads: `deposit`, `answer` and `seen` run on threads of the transport, one call at a time for each
declaration. They must return soon: samples queue up behind a slow one and grow old. `deposit` and
`seen` only put things into a `Slot` or set an event. What they raise is logged and goes no further.
A call that is under way when its declaration is closed may still end.

Any thread may call a transport. Nothing that a transport does blocks on a slow or frozen remote:
publications are dropped, and questions have a time-out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lefleet_client.transport.errors import AnswerFailed, NoAnswer


@dataclass(frozen=True)
class Sample:
    """One publication; without an attachment that is empty."""

    key: str
    payload: bytes
    attachment: bytes


@dataclass(frozen=True)
class Question:
    """What somebody asks; `key` is the concrete one that is asked."""

    key: str
    payload: bytes


@dataclass(frozen=True)
class Reply:
    """What somebody answers; `key` tells who."""

    key: str
    payload: bytes


@dataclass(frozen=True)
class Answers:
    """All that came back; with `is_complete` nobody else was going to answer."""

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

Deposit = Callable[[Sample], None]
Answer = Callable[[Question], bytes]
Seen = Callable[[str, bool], None]
"""Key, and whether it is alive; the same news may come twice."""


class Declared(Protocol):
    """Something that a transport does until it is closed; closing twice is fine."""

    def close(self) -> None: ...


class Publisher(Declared, Protocol):
    """Publishes to one key; returns at once, and says nothing when nobody hears it."""

    def put(self, payload: bytes, attachment: bytes) -> None: ...


class Transport(Protocol):
    """One node of a network. Closing it closes all that it declared."""

    def publisher(self, key: str, qos: Qos) -> Publisher: ...

    def subscribe(self, pattern: str, deposit: Deposit) -> Declared: ...

    def serve(self, pattern: str, answer: Answer) -> Declared:
        """Answer questions. When `answer` raises, the asker learns that it failed, not why."""

    def ask(self, pattern: str, payload: bytes, timeout_s: float) -> Answers:
        """Ask everybody who serves a matching key, and wait for all of them or the time-out."""

    def announce(self, key: str) -> Declared:
        """Be seen under this key, until closed or dead."""

    def watch(self, pattern: str, seen: Seen) -> Declared:
        """Hear who is alive, now and from now on."""

    def present(self, pattern: str, timeout_s: float) -> frozenset[str]:
        """Who is alive now; NoAnswer where nothing came in time, which does not mean nobody."""

    def close(self) -> None: ...


def ask_one(transport: Transport, key: str, payload: bytes, timeout_s: float) -> bytes:
    """Ask the one who serves this key."""
    answers = transport.ask(key, payload, timeout_s)
    if answers.replies:
        return answers.replies[0].payload
    if answers.failures:
        raise AnswerFailed(f"{key}: the other side failed to answer; its log says why")
    why = "nobody serves it" if answers.is_complete else f"no answer within {timeout_s:g} s"
    raise NoAnswer(f"{key}: {why}")


def is_gone(transport: Transport, key: str, timeout_s: float) -> bool:
    """Whether nobody is alive under this key, by two answers in a row.

    One answer is not enough: Zenoh's was empty once in 16,000 questions about somebody alive.
    """
    return not any(transport.present(key, timeout_s / 2) for _ in range(2))
