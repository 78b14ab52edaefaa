"""Closes sessions of robots that went away, and answers clients without a session."""

import logging
import queue
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Literal, NamedTuple

from lefleet.server.rates import TokenBucket
from lefleet.server.sessions import Sessions
from lefleet_client import wire
from lefleet_client.transport import ACTION, Transport, TransportError

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.25
_ASK_S = 1.0
_EMPTY_ANSWERS = 4
"""So many in a row, spread over the grace period, before a robot counts as gone."""
_ANSWER_EVERY_S = 0.2
_REMEMBERED = 1024
_ROOM = 256
"""So many observations without a session wait for an answer at most."""
_ANSWERS_PER_S = 100
"""To all clients without a session together: each answer costs a declaration on the network."""


class UnknownClient(NamedTuple):
    """A client that sends observations without a session."""

    segment: str
    """Its place in the key tree."""
    header: wire.Header


class Absence(NamedTuple):
    """A robot whose token is missing, or has not been seen yet."""

    since_s: float
    """The last sign of life, or the news that the token vanished, whichever is later."""
    asked_s: float
    """When the token was last asked for; `since_s` before the first time."""
    empty_answers: int = 0
    """In a row."""

    @classmethod
    def begin(cls, since_s: float) -> "Absence":
        return cls(since_s, since_s)


def judge_absence(absence: Absence, now_s: float, grace_s: float) -> Literal["wait", "ask", "gone"]:
    """What to do about a missing token: an absence has to last before it ends a session.

    One empty answer proves little, and neither do two at once: a busy machine or a link that is
    being restored causes both.
    """
    if absence.empty_answers >= _EMPTY_ANSWERS and now_s - absence.since_s >= grace_s:
        return "gone"
    return "ask" if now_s - absence.asked_s >= grace_s / _EMPTY_ANSWERS else "wait"


class SessionReaper:
    """One thread, `reaper`: closes abandoned sessions, and answers clients that have none.

    A robot whose token vanishes has a grace period, in which the token is asked for several times:
    late news of an earlier session must not end the present one. Every observation, reset, token
    and non-empty answer is a sign of life, after which the period begins again. The token of a
    robot that has just come is asked for too, because it may have vanished while its session was
    being opened. One lock guards the absences.
    """

    def __init__(
        self,
        transport: Transport,
        keys: wire.ServerKeys,
        sessions: Sessions,
        *,
        grace_s: float,
        idle_timeout_s: float,
    ) -> None:
        self._transport = transport
        self._keys = keys
        self._sessions = sessions
        self._unknown_clients: queue.Queue[UnknownClient | None] = queue.Queue(_ROOM)
        self._grace_s = grace_s
        self._idle_timeout_s = idle_timeout_s
        self._lock = threading.Lock()
        self._absences: dict[str, Absence] = {}
        self._answers = TokenBucket(_ROOM, _ANSWERS_PER_S, time.monotonic())
        self._answered_s: OrderedDict[str, float] = OrderedDict()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reaper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        with suppress(queue.Full):
            self._unknown_clients.put_nowait(None)  # wakes the thread
        if self._thread.is_alive():
            self._thread.join(_ASK_S * 3)

    def seen(self, segment: str, is_alive: bool) -> None:
        """News of a robot's presence; for the transport's callback."""
        if is_alive:
            self._forget(segment)
        else:
            self._doubt(segment)

    def answer_later(self, client: UnknownClient) -> bool:
        """Tell the client that it has no session; False where too many wait for that.

        Only the thread that receives observations calls this.
        """
        if not self._answers.take(time.monotonic()):
            return False
        try:
            self._unknown_clients.put_nowait(client)
        except queue.Full:
            return False
        return True

    def _doubt(self, segment: str) -> None:
        if self._sessions.find(segment) is not None:
            with self._lock:
                self._absences.setdefault(segment, Absence.begin(time.monotonic()))

    def _forget(self, segment: str) -> None:
        with self._lock:
            self._absences.pop(segment, None)

    def _run(self) -> None:
        next_look_s = 0.0
        while not self._is_stopping.is_set():
            try:
                self._answer_one()
                if time.monotonic() >= next_look_s:
                    next_look_s = time.monotonic() + _LOOK_S
                    self._close_gone()
                    self._close_idle()
            except Exception:  # noqa: BLE001 - abandoned sessions must not pile up
                _LOG.exception("event=reaper_failed")

    def _answer_one(self) -> None:
        try:
            client = self._unknown_clients.get(timeout=_LOOK_S)
            if client is not None:
                self._answer(client)
        except queue.Empty:
            pass
        except TransportError as error:
            _LOG.debug("event=unknown_client_not_answered reason=%r", str(error))

    def _close_gone(self) -> None:
        for segment, session in self._sessions.snapshot().items():
            if not session.is_checked:
                session.is_checked = True
                self._doubt(segment)
        with self._lock:
            absences = dict(self._absences)
        try:
            for segment, absence in absences.items():
                self._look_after(segment, absence)
        except TransportError as error:
            # Nothing is known about the others either, and each would take the whole time-out.
            _LOG.debug("event=presence_not_known reason=%r", str(error))

    def _look_after(self, segment: str, absence: Absence) -> None:
        session = self._sessions.find(segment)
        if session is None:
            self._forget(segment)
            return
        if session.seen_s > absence.since_s:
            heard = absence._replace(since_s=session.seen_s, empty_answers=0)
            self._replace(segment, absence, heard)
            absence = heard
        step = judge_absence(absence, time.monotonic(), self._grace_s)
        if step == "ask":
            is_present = bool(self._transport.present(self._keys.client(segment).alive, _ASK_S))
            asked = absence._replace(
                asked_s=time.monotonic(), empty_answers=absence.empty_answers + 1
            )
            self._replace(segment, absence, None if is_present else asked)
        elif step == "gone" and self._replace(segment, absence, None):
            self._sessions.close(segment, session.id, "the robot went away")

    def _replace(self, segment: str, absence: Absence, by: Absence | None) -> bool:
        """Whether it was still the same: news may have come meanwhile, and is newer."""
        with self._lock:
            if self._absences.get(segment) is not absence:
                return False
            if by is None:
                del self._absences[segment]
            else:
                self._absences[segment] = by
        return True

    def _close_idle(self) -> None:
        now = time.monotonic()
        for segment, session in self._sessions.snapshot().items():
            if now - session.seen_s >= self._idle_timeout_s:
                reason = f"no observation for {self._idle_timeout_s:g} s"
                self._sessions.close(segment, session.id, reason)

    def _answer(self, client: UnknownClient) -> None:
        """Tell it that there is no session, at most every 200 ms."""
        segment, header = client
        now = time.monotonic()
        if now - self._answered_s.get(segment, -_ANSWER_EVERY_S) < _ANSWER_EVERY_S:
            return
        self._answered_s[segment] = now
        self._answered_s.move_to_end(segment)
        while len(self._answered_s) > _REMEMBERED:
            self._answered_s.popitem(last=False)
        is_replaced = self._sessions.find(segment) is not None
        reason = wire.REPLACED if is_replaced else "there is no session; open one"
        publisher = self._transport.publisher(self._keys.client(segment).action, ACTION)
        try:
            body = wire.EVENT.encode(wire.SessionClosed(reason=reason))
            publisher.put(body, header._replace(message_type=wire.MessageType.EVENT).pack())
        finally:
            publisher.close()
