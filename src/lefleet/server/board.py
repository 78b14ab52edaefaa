"""Requests on their way: who has mail, what is prepared, who may go next."""

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from lefleet.server.scheduler import Scheduler
from lefleet.server.session import Session
from lefleet_client import wire


@dataclass(frozen=True)
class Mail:
    """An observation as it arrived."""

    header: wire.Header
    body: bytes
    arrived_s: float = field(default_factory=time.monotonic)

    @property
    def number(self) -> tuple[int, int]:
        """Episode and number by the robot's own count: networks may deliver out of order."""
        return self.header.episode_id, self.header.seq_id


@dataclass(eq=False)
class Ticket:
    """The right to work for a session: it has one at most, from preparing to the answer."""

    session: Session
    mail: Mail
    taken_s: float
    prepared: Any = None
    seed: int = 0
    prepared_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    """When it was prepared, and when the policy began and ended; None as long as it did not."""


@dataclass(eq=False)
class _Place:
    session: Session
    mail: Mail | None = None
    under_way: Mail | None = None
    superseded: int = 0

    def holds(self, mail: Mail) -> bool:
        """Whether this very request is here already: robots send again what they fear is lost."""
        return mail.number in self._numbers()

    def is_past(self, mail: Mail) -> bool:
        """Whether a newer request of its episode is here. What was here before does not count, or
        one wrong number would silence a robot for good."""
        episode_id, seq_id = mail.number
        return any(episode == episode_id and seq > seq_id for episode, seq in self._numbers())

    def _numbers(self) -> list[tuple[int, int]]:
        return [one.number for one in (self.mail, self.under_way) if one is not None]


class Board:
    """Newest-only mailboxes, one per session, and a short row of prepared requests.

    Mail is prepared in the scheduler's order, and only so many requests ahead: a flood of
    observations costs one mailbox, not work. One lock guards everything. It is held for
    assignments only, so that `deposit` fits into a transport's callback.
    """

    def __init__(self, scheduler: Scheduler, ahead: int) -> None:
        self._scheduler = scheduler
        self._ahead = ahead
        self._lock = threading.Lock()
        self._has_mail = threading.Condition(self._lock)
        self._has_prepared = threading.Condition(self._lock)
        self._is_idle = threading.Condition(self._lock)
        self._places: dict[str, _Place] = {}
        self._prepared: deque[Ticket] = deque()
        self._under_way = 0
        self._in_preparation = 0
        self._is_closed = False

    def add(self, session: Session) -> None:
        with self._lock:
            self._places[session.id] = _Place(session)

    def remove(self, session: Session) -> None:
        """Forget the session and its mail; a ticket under way ends by itself."""
        with self._lock:
            self._places.pop(session.id, None)
            self._scheduler.forget(session.id)
            self._notify_idle()

    def deposit(self, session: Session, mail: Mail) -> None:
        with self._lock:
            place = self._places.get(session.id)
            if place is None or place.holds(mail):
                return
            is_past = place.is_past(mail)
            if is_past or place.mail is not None:
                place.superseded += 1
            if is_past:
                return
            place.mail = mail
            if place.under_way is None:
                self._has_mail.notify()

    def next_mail(self) -> Ticket | None:
        """The next request to prepare; waits for one. None when the board is closed."""
        with self._lock:
            while not self._is_closed:
                if (place := self._pick()) is not None:
                    return self._take(place)
                self._has_mail.wait()
            return None

    def put_prepared(self, ticket: Ticket) -> None:
        with self._lock:
            self._in_preparation -= 1
            self._prepared.append(ticket)
            self._has_prepared.notify()

    def next_prepared(self) -> Ticket | None:
        """The next request to answer; waits for one. None when the board is closed."""
        with self._lock:
            while not self._prepared:
                if self._is_closed:
                    return None
                self._has_prepared.wait()
            ticket = self._prepared.popleft()
            # There is room to prepare another one while this one is answered.
            self._has_mail.notify()
            return ticket

    def end(self, ticket: Ticket, *, was_prepared: bool) -> None:
        """The request is answered, or never will be: the session's next one may be taken."""
        with self._lock:
            self._under_way -= 1
            if not was_prepared:
                self._in_preparation -= 1
            if (place := self._places.get(ticket.session.id)) is not None:
                place.under_way = None
            self._has_mail.notify()
            self._notify_idle()

    def superseded(self, session: Session) -> int:
        """How many of the session's requests were overwritten since this was last asked."""
        with self._lock:
            place = self._places.get(session.id)
            if place is None:
                return 0
            count, place.superseded = place.superseded, 0
            return count

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until everything that arrived is answered."""
        with self._lock:
            return self._is_idle.wait_for(self._nothing_left, timeout_s)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._has_mail.notify_all()
            self._has_prepared.notify_all()

    def _pick(self) -> _Place | None:
        if len(self._prepared) + self._in_preparation >= self._ahead:
            return None
        waiting = {
            place.session.id: place
            for place in self._places.values()
            if place.mail is not None and place.under_way is None
        }
        return waiting[self._scheduler.pick(waiting)] if waiting else None

    def _take(self, place: _Place) -> Ticket | None:
        mail, place.mail = place.mail, None
        if mail is None:
            return None
        place.under_way = mail
        self._under_way += 1
        self._in_preparation += 1
        return Ticket(place.session, mail, time.monotonic())

    def _nothing_left(self) -> bool:
        return self._under_way == 0 and all(one.mail is None for one in self._places.values())

    def _notify_idle(self) -> None:
        if self._nothing_left():
            self._is_idle.notify_all()
