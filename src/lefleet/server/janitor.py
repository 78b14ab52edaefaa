"""Sessions of robots that went away, and robots that come without a session."""

import logging
import queue
import threading
import time
from collections import OrderedDict

from lefleet.server.sessions import Sessions
from lefleet.server.wiring import Stranger
from lefleet_client import wire
from lefleet_client.transport import ACTION, Transport, TransportError

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.25
_ASK_S = 1.0
_ANSWER_EVERY_S = 0.2
_REMEMBERED = 1024


class Janitor:
    """One thread, `janitor`: closes forgotten sessions and tells strangers that they are.

    A robot that vanishes has a grace period, and is asked for once more before its session is
    closed: late news of an earlier incarnation must not end a live one. One lock guards the list
    of vanished robots.
    """

    def __init__(
        self,
        transport: Transport,
        keys: wire.ServerKeys,
        sessions: Sessions,
        strangers: "queue.Queue[Stranger]",
        *,
        grace_s: float,
        idle_timeout_s: float,
    ) -> None:
        self._transport = transport
        self._keys = keys
        self._sessions = sessions
        self._strangers = strangers
        self._grace_s = grace_s
        self._idle_timeout_s = idle_timeout_s
        self._lock = threading.Lock()
        self._gone_s: dict[str, float] = {}
        self._answered_s: OrderedDict[str, float] = OrderedDict()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="janitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join(_ASK_S * 3)

    def seen(self, place: str, is_alive: bool) -> None:
        """News of a robot's presence; for the transport's callback."""
        with self._lock:
            if is_alive:
                self._gone_s.pop(place, None)
            elif self._sessions.find(place) is not None:
                self._gone_s.setdefault(place, time.monotonic())

    def _run(self) -> None:
        next_look_s = 0.0
        while not self._is_stopping.is_set():
            try:
                self._answer(self._strangers.get(timeout=_LOOK_S))
            except queue.Empty:
                pass
            except TransportError as error:
                _LOG.debug("event=stranger_not_answered reason=%r", str(error))
            if time.monotonic() >= next_look_s:
                self._look()
                next_look_s = time.monotonic() + _LOOK_S

    def _look(self) -> None:
        try:
            self._close_gone()
            self._close_idle()
        except TransportError as error:
            _LOG.warning("event=janitor_cannot_look reason=%r", str(error))

    def _close_gone(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [place for place, since in self._gone_s.items() if now - since >= self._grace_s]
        for place in due:
            session = self._sessions.find(place)
            key = self._keys.client(place).alive
            is_there = session is not None and self._transport.present(key, _ASK_S)
            with self._lock:
                self._gone_s.pop(place, None)
            if session is not None and not is_there:
                self._sessions.close(place, session.id, "the robot went away")

    def _close_idle(self) -> None:
        now = time.monotonic()
        for place, session in self._sessions.snapshot().items():
            if now - session.seen_s >= self._idle_timeout_s:
                reason = f"no observation for {self._idle_timeout_s:g} s"
                self._sessions.close(place, session.id, reason)

    def _answer(self, stranger: Stranger) -> None:
        """Tell it that there is no session, once in a while."""
        place, header = stranger
        now = time.monotonic()
        if now - self._answered_s.get(place, -_ANSWER_EVERY_S) < _ANSWER_EVERY_S:
            return
        if place not in self._answered_s:
            _LOG.info("event=no_session client=%s", place)
        self._answered_s[place] = now
        self._answered_s.move_to_end(place)
        while len(self._answered_s) > _REMEMBERED:
            self._answered_s.popitem(last=False)
        reason = "there is no session; open one"
        if self._sessions.find(place) is not None:
            reason = wire.REPLACED
        publisher = self._transport.publisher(self._keys.client(place).action, ACTION)
        body = wire.EVENT.encode(wire.SessionClosed(reason=reason))
        publisher.put(body, header._replace(message_type=wire.MessageType.EVENT).pack())
        publisher.close()
