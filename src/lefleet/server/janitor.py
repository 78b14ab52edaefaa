"""Sessions of robots that went away, and robots that come without a session."""

import logging
import queue
import threading
import time
from collections import OrderedDict

from lefleet.server.sessions import Sessions
from lefleet.server.wiring import Stranger
from lefleet_client import wire
from lefleet_client.transport import ACTION, NoAnswer, Transport, TransportError, is_gone

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.25
_ASK_S = 1.0
_ANSWER_EVERY_S = 0.2
_REMEMBERED = 1024


class Janitor:
    """One thread, `janitor`: closes forgotten sessions and tells strangers that they are.

    A robot that vanishes has a grace period, and is asked for once more before its session is
    closed: late news of an earlier incarnation must not end a live one. One that has just come is
    asked for too, because it may have vanished while its session was being opened. One lock guards
    the list of those to ask for.
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
        self._doubted_s: dict[str, float] = {}
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
        if not is_alive:
            self._doubt(place)

    def _doubt(self, place: str) -> None:
        if self._sessions.find(place) is not None:
            with self._lock:
                self._doubted_s.setdefault(place, time.monotonic())

    def _run(self) -> None:
        next_look_s = 0.0
        while not self._is_stopping.is_set():
            try:
                self._answer_one()
                if time.monotonic() >= next_look_s:
                    next_look_s = time.monotonic() + _LOOK_S
                    self._close_gone()
                    self._close_idle()
            except Exception:  # noqa: BLE001 - forgotten sessions must not pile up
                _LOG.exception("event=janitor_failed: it goes on")

    def _answer_one(self) -> None:
        try:
            self._answer(self._strangers.get(timeout=_LOOK_S))
        except queue.Empty:
            pass
        except TransportError as error:
            _LOG.debug("event=stranger_not_answered reason=%r", str(error))

    def _close_gone(self) -> None:
        now = time.monotonic()
        for place, session in self._sessions.snapshot().items():
            if not session.is_seen:
                session.is_seen = True
                self._doubt(place)
        with self._lock:
            doubted = dict(self._doubted_s)
        for place, since in doubted.items():
            if now - since >= self._grace_s:
                with self._lock:
                    # News that comes from here on is not in the answer yet, and counts again.
                    self._doubted_s.pop(place, None)
                self._close_unless_present(place)

    def _close_unless_present(self, place: str) -> None:
        session = self._sessions.find(place)
        if session is None:
            return
        try:
            has_left = is_gone(self._transport, self._keys.client(place).alive, _ASK_S)
        except NoAnswer:
            self._doubt(place)
            return
        if has_left:
            self._sessions.close(place, session.id, "the robot went away")

    def _close_idle(self) -> None:
        now = time.monotonic()
        for place, session in self._sessions.snapshot().items():
            if now - session.seen_s >= self._idle_timeout_s:
                reason = f"no observation for {self._idle_timeout_s:g} s"
                self._sessions.close(place, session.id, reason)

    def _answer(self, stranger: Stranger) -> None:
        """Tell it that there is no session, once in a while; so many names are remembered."""
        place, header = stranger
        now = time.monotonic()
        if now - self._answered_s.get(place, -_ANSWER_EVERY_S) < _ANSWER_EVERY_S:
            return
        self._answered_s[place] = now
        self._answered_s.move_to_end(place)
        while len(self._answered_s) > _REMEMBERED:
            self._answered_s.popitem(last=False)
        is_replaced = self._sessions.find(place) is not None
        reason = wire.REPLACED if is_replaced else "there is no session; open one"
        publisher = self._transport.publisher(self._keys.client(place).action, ACTION)
        try:
            body = wire.EVENT.encode(wire.SessionClosed(reason=reason))
            publisher.put(body, header._replace(message_type=wire.MessageType.EVENT).pack())
        finally:
            publisher.close()
