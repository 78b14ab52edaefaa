"""Requests on their way: one newest-only mailbox for each robot, and turns among robots."""

import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lefleet.server.session import Session
from lefleet_client import wire

_LONGEST_REST_S = 1.0


@dataclass(frozen=True)
class Incoming:
    """An observation as it arrived."""

    header: wire.Header
    body: bytes
    arrived_s: float = field(default_factory=time.monotonic)

    @property
    def number(self) -> tuple[int, int]:
        """Episode and number by the robot's own count: networks may deliver out of order."""
        return self.header.episode_id, self.header.seq_id


@dataclass(eq=False)
class Job:
    """One request that is worked on. A session has one at most, from preparing to the answer, so
    its holder may use the session's pipeline and counters without a lock."""

    session: Session
    incoming: Incoming
    taken_s: float
    prepared: Any = None
    seed: int = 0
    prepared_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    """When it was prepared, and when the policy began and ended; None as long as it did not."""


@dataclass(eq=False)
class _Mailbox:
    session: Session
    newest: Incoming | None = None
    in_flight: Incoming | None = None
    superseded: int = 0
    rests_until_s: float = 0.0
    """It gets no turn before; see `rests_until`."""

    def holds(self, incoming: Incoming) -> bool:
        """Whether this very request is here already: robots send again what may be lost."""
        return incoming.number in self._numbers()

    def has_newer(self, incoming: Incoming) -> bool:
        """Whether a newer request of its episode is here. What was here before does not count, or
        one wrong number would silence a robot for good."""
        episode_id, seq_id = incoming.number
        return any(episode == episode_id and seq > seq_id for episode, seq in self._numbers())

    def _numbers(self) -> list[tuple[int, int]]:
        return [one.number for one in (self.newest, self.in_flight) if one is not None]


def rests_until(now_s: float, others_s: float, wasted_s: float) -> float:
    """When a session gets its next turn after it wasted so much of a prepare thread's time.

    Sessions rest one after the other, `others_s` is when the last one has rested. So what is costly
    to refuse takes a twentieth of a thread at most, at whatever rate and from however many sessions
    it is sent. A robot whose request failed once hardly notices it.
    """
    return min(max(now_s, others_s) + 19 * wasted_s, now_s + _LONGEST_REST_S)


class RequestQueue:
    """Mailboxes that hold the newest request of a session, and a short row of prepared requests.

    Requests are prepared in turns, and only so many ahead: a flood of observations costs one
    mailbox, not work. One lock guards everything. It is held for assignments only, so that `put`
    fits into a transport's callback.
    """

    def __init__(self, ahead: int) -> None:
        self._turns = RoundRobin()
        self._ahead = ahead
        self._lock = threading.Lock()
        self._has_incoming = threading.Condition(self._lock)
        self._has_prepared = threading.Condition(self._lock)
        self._is_idle = threading.Condition(self._lock)
        self._mailboxes: dict[str, _Mailbox] = {}
        self._preparing: set[Job] = set()
        self._prepared: deque[Job] = deque()
        self._in_flight = 0
        self._rests_until_s = 0.0
        self._is_closed = False

    def add(self, session: Session) -> None:
        with self._lock:
            self._mailboxes[session.id] = _Mailbox(session)

    def remove(self, session: Session) -> None:
        """Forget the session and what it sent; a job in flight ends by itself."""
        with self._lock:
            self._mailboxes.pop(session.id, None)
            self._turns.forget(session.id)
            self._notify_idle()

    def put(self, session: Session, incoming: Incoming) -> bool:
        """Whether the mailbox had room; otherwise the older of two requests is superseded."""
        with self._lock:
            mailbox = self._mailboxes.get(session.id)
            if mailbox is None or mailbox.holds(incoming):
                return False
            is_late = mailbox.has_newer(incoming)
            has_room = not is_late and mailbox.newest is None
            mailbox.superseded += not has_room
            if is_late:
                return False
            mailbox.newest = incoming
            if mailbox.in_flight is None:
                self._has_incoming.notify()
            return has_room

    def next_to_prepare(self) -> Job | None:
        """The next request to prepare; waits for one. None when the queue is closed."""
        with self._lock:
            while not self._is_closed:
                now_s = time.monotonic()
                if (job := self._take(now_s)) is not None:
                    return job
                self._has_incoming.wait(self._shortest_rest_s(now_s))
            return None

    def put_prepared(self, job: Job) -> None:
        with self._lock:
            self._preparing.discard(job)
            self._prepared.append(job)
            self._has_prepared.notify()

    def next_to_infer(self) -> Job | None:
        """The next prepared request; waits for one. None when the queue is closed."""
        with self._lock:
            while not self._prepared:
                if self._is_closed:
                    return None
                self._has_prepared.wait()
            job = self._prepared.popleft()
            # There is room to prepare another one while this one is computed.
            self._has_incoming.notify()
            return job

    def finish(self, job: Job, wasted_s: float = 0.0) -> None:
        """The request is answered, or never will be: the session's next one may be taken, after
        a rest where time was wasted on this one."""
        with self._lock:
            self._in_flight -= 1
            self._preparing.discard(job)
            if (mailbox := self._mailboxes.get(job.session.id)) is not None:
                mailbox.in_flight = None
                mailbox.rests_until_s = 0.0
                if wasted_s:
                    self._rests_until_s = rests_until(
                        time.monotonic(), self._rests_until_s, wasted_s
                    )
                    mailbox.rests_until_s = self._rests_until_s
            self._has_incoming.notify()
            self._notify_idle()

    def superseded(self, session: Session) -> int:
        """How many of the session's requests were overwritten since this was last asked."""
        with self._lock:
            mailbox = self._mailboxes.get(session.id)
            if mailbox is None:
                return 0
            count, mailbox.superseded = mailbox.superseded, 0
            return count

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until everything that arrived is answered."""
        with self._lock:
            return self._is_idle.wait_for(self._nothing_left, timeout_s)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._has_incoming.notify_all()
            self._has_prepared.notify_all()

    def _take(self, now_s: float) -> Job | None:
        if len(self._prepared) + len(self._preparing) >= self._ahead:
            return None
        waiting = {
            mailbox.session.id: (mailbox, mailbox.newest)
            for mailbox in self._mailboxes.values()
            if mailbox.newest is not None
            and mailbox.in_flight is None
            and mailbox.rests_until_s <= now_s
        }
        if not waiting:
            return None
        mailbox, incoming = waiting[self._turns.pick(waiting)]
        mailbox.newest, mailbox.in_flight = None, incoming
        job = Job(mailbox.session, incoming, now_s)
        self._in_flight += 1
        self._preparing.add(job)
        return job

    def _shortest_rest_s(self, now_s: float) -> float | None:
        """How long until a session with a request has rested; None if none rests."""
        rests_s = [
            one.rests_until_s - now_s
            for one in self._mailboxes.values()
            if one.newest is not None and one.rests_until_s > now_s
        ]
        return min(rests_s, default=None)

    def _nothing_left(self) -> bool:
        return self._in_flight == 0 and all(one.newest is None for one in self._mailboxes.values())

    def _notify_idle(self) -> None:
        if self._nothing_left():
            self._is_idle.notify_all()


class RoundRobin:
    """The session that has waited the most turns goes next, so none starves.

    A new one joins at the end of the row, so that opening a session for each request gains nothing.

    >>> turns = RoundRobin()
    >>> [turns.pick(["a", "b"]) for _ in range(4)]
    ['a', 'b', 'a', 'b']
    """

    def __init__(self) -> None:
        self._turn = 0
        self._last: dict[str, int] = {}

    def pick(self, waiting: Iterable[str]) -> str:
        """One of `waiting`, which is not empty."""
        chosen = min(waiting, key=lambda session_id: self._last.setdefault(session_id, self._turn))
        self._turn += 1
        self._last[chosen] = self._turn
        return chosen

    def forget(self, session_id: str) -> None:
        self._last.pop(session_id, None)
