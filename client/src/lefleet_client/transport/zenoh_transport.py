"""The seam over Zenoh."""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

import zenoh

from lefleet_client.transport.declarations import (
    Declaration,
    PublisherDeclaration,
    Receiver,
    Watch,
    concrete,
    expression,
    is_pattern,
)
from lefleet_client.transport.errors import (
    CannotListen,
    CannotOpen,
    Closed,
    Forked,
    NoAnswer,
    TransportError,
    ZenohFailed,
)
from lefleet_client.transport.exit import CloseAtExit, inside_zenoh
from lefleet_client.transport.seam import (
    Answers,
    Declared,
    OnPresence,
    OnQuestion,
    OnSample,
    Publisher,
    Qos,
    Question,
    Reply,
    Sample,
    attempt,
)
from lefleet_client.transport.settings import ZenohSettings, zenoh_config
from lefleet_client.wire import MAX_MESSAGE_BYTES

_LOG = logging.getLogger(__name__)
WAITING_SAMPLES = 1
"""One, because all senders wait behind it: each link waits for its turn, and so a flood on one link
takes only every other turn from a robot on another link."""
WAITING_QUESTIONS = 128
_COPIED_AT_ONCE = 65536
"""Chunks are smaller, which robots keep for a while; Zenoh's memory is not theirs to keep."""
_FAILED = b"lefleet: failed to answer"

MOST_REPLY_BYTES = MAX_MESSAGE_BYTES
"""All answers to a question: far above the statuses of a fleet. What is beyond is not kept."""

T = TypeVar("T")
D = TypeVar("D", bound=Declaration)

_USED_IN: set[int] = set()
"""Processes that have opened a session: Zenoh's threads do not follow into a forked child."""


class ZenohTransport:
    """A node of a Zenoh network.

    One thread per subscription, service and watch, see `Receiver`. One lock guards what is
    declared; it is never held while Zenoh is called, and a signal handler may close while its
    thread has it. A transport that is still open when the program is over is closed then.
    """

    def __init__(self, session: zenoh.Session, *, is_paced: bool = False) -> None:
        self._lock = threading.RLock()
        self._declared: dict[Declaration, None] = {}
        self._is_closed = False
        self._pid = os.getpid()
        # Each sender has its own link to a node that listens, so a flood waits on that of its own.
        # Over the link from a router it would hold up all others.
        self._is_paced = is_paced
        self._session: zenoh.Session | None = session
        del session
        try:
            self._at_exit = CloseAtExit(self.close)
        except Closed:
            self._close_session()
            raise

    @classmethod
    def open(cls, settings: ZenohSettings) -> "ZenohTransport":
        config = zenoh_config(settings)
        if _USED_IN - {os.getpid()}:
            raise Forked(
                "Zenoh was used before this process was forked, and does not work in it; use the "
                "spawn start method"
            )
        _USED_IN.add(os.getpid())
        failure: TransportError
        with inside_zenoh():
            try:
                return cls(zenoh.open(config), is_paced=bool(settings.listen))
            except TransportError as error:
                failure = _without_frames(error)
            except zenoh.ZError as error:
                _LOG.debug("zenoh.open: %s", error)
                failure = _why_not(settings, str(error))
        raise failure

    def publisher(self, key: str, qos: Qos) -> Publisher:
        place = concrete(key)
        return self._declare(
            lambda session: PublisherDeclaration(
                session.declare_publisher(
                    place,
                    congestion_control=zenoh.CongestionControl.DROP,
                    priority=(
                        zenoh.Priority.INTERACTIVE_HIGH if qos.is_urgent else zenoh.Priority.DATA
                    ),
                    express=qos.is_urgent,
                    reliability=(
                        zenoh.Reliability.RELIABLE
                        if qos.is_reliable
                        else zenoh.Reliability.BEST_EFFORT
                    ),
                ),
                self._call,
            )
        )

    def subscribe(self, pattern: str, on_sample: OnSample) -> Declared:
        def deliver(sample: zenoh.Sample) -> object:
            attachment = b"" if sample.attachment is None else sample.attachment.to_bytes()
            body = sample.payload
            payload = body.to_bytes() if len(body) <= _COPIED_AT_ONCE else body
            received = Sample(str(sample.key_expr), payload, attachment)
            return attempt(f"sample for {pattern}", on_sample, received)

        place = expression(pattern)
        return self._declare(
            lambda session: Receiver(
                session.declare_subscriber(place, zenoh.handlers.FifoChannel(WAITING_SAMPLES)),
                pattern,
                deliver,
                is_paced=self._is_paced,
            )
        )

    def serve(self, pattern: str, on_question: OnQuestion) -> Declared:
        def deliver(query: zenoh.Query) -> None:
            with query:
                _reply(query, pattern, on_question)

        place = expression(pattern)
        return self._declare(
            lambda session: Receiver(
                # Zenoh's default channel blocks when it is full, and with it all that arrives over
                # that link. Here a question that finds no room ends the oldest one, unanswered.
                session.declare_queryable(place, zenoh.handlers.RingChannel(WAITING_QUESTIONS)),
                pattern,
                deliver,
                is_paced=self._is_paced,
            )
        )

    def ask(self, pattern: str, payload: bytes, timeout_s: float) -> Answers:
        place = expression(pattern)
        answers = self._call(
            lambda session: _gathered(
                session.get(
                    place,
                    # Ask all of several servers, and hear all: by default one reply hides others.
                    target=zenoh.QueryTarget.ALL,
                    consolidation=zenoh.ConsolidationMode.NONE,
                    timeout=timeout_s,
                    payload=payload,
                )
            )
        )
        self._require_open()
        return answers

    def announce(self, key: str) -> Declared:
        place = concrete(key)
        return self._declare(lambda session: Declaration(session.liveliness().declare_token(place)))

    def watch(self, pattern: str, on_presence: OnPresence) -> Declared:
        place = expression(pattern)
        return self._declare(
            lambda session: Watch(
                session.liveliness().declare_subscriber(place, history=True),
                pattern,
                lambda key, is_alive: attempt(f"presence of {pattern}", on_presence, key, is_alive),
                is_paced=self._is_paced,
            )
        )

    def present(self, pattern: str, timeout_s: float) -> frozenset[str]:
        place = expression(pattern)
        answers = self._call(
            lambda session: _gathered(session.liveliness().get(place, timeout=timeout_s))
        )
        self._require_open()
        with self._lock:
            watches = [one for one in self._declared if isinstance(one, Watch)]
        # A peer answers from what its watches were told, and its router ends the question, perhaps
        # before that: then tokens are missing in the answer that a watch knows.
        known = frozenset[str]().union(*(watch.present(pattern) for watch in watches))
        if not known and not answers.replies and not answers.is_complete:
            raise NoAnswer(f"{pattern}: no answer within {timeout_s:g} s about what is present")
        return known.union(reply.key for reply in answers.replies)

    def close(self) -> None:
        if os.getpid() != self._pid or self._session is None:
            return
        with inside_zenoh():
            with self._lock:
                was_closed, self._is_closed = self._is_closed, True
                declared = list(self._declared)
            for one in reversed(declared):
                one.close()
            if not was_closed:
                self._close_session()
        self._at_exit.cancel()

    def __enter__(self) -> "ZenohTransport":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.close()  # type: ignore[no-untyped-call]
        except zenoh.ZError as error:
            _LOG.debug("close: %s", error)

    def _call(self, use: Callable[[zenoh.Session], T]) -> T:
        """What `use` returns. No reference to an object of Zenoh leaves with an error."""
        if os.getpid() != self._pid:
            raise Forked(
                "this transport was opened before a fork; use the spawn start method, and open one "
                "in the child"
            )
        failure: TransportError
        with inside_zenoh():
            try:
                return use(self._require_open())
            except TransportError as error:
                failure = _without_frames(error)
            except zenoh.ZError as error:
                is_closed = self._session is None or self._session.is_closed()
                failure = (
                    Closed("the transport is closed")
                    if is_closed
                    else ZenohFailed(f"Zenoh failed: {error}")
                )
        raise failure

    def _require_open(self) -> zenoh.Session:
        if self._is_closed or self._session is None:
            raise Closed("the transport is closed")
        return self._session

    def _declare(self, declare: Callable[[zenoh.Session], D]) -> D:
        declared = self._call(declare)
        with self._lock:
            is_late = self._is_closed
            if not is_late:
                declared.on_close = self._forget
                self._declared[declared] = None
        if is_late:
            declared.close()
            raise Closed("the transport is closed")
        return declared

    def _forget(self, declared: Declaration) -> None:
        with self._lock:
            self._declared.pop(declared, None)


def _without_frames(error: TransportError) -> TransportError:
    """The error without the frames that it passed: they hold sessions and what is declared."""
    error.__context__ = None
    return error.with_traceback(None)


def _why_not(settings: ZenohSettings, said: str) -> CannotOpen:
    """Zenoh tells apart what it cannot listen on, but not what it cannot connect to."""
    if "listener" in said:
        busy = "another program listens there; stop it, or listen on another port"
        cause = busy if "in use" in said else "is that an address of this machine, and allowed?"
        return CannotListen(f"cannot listen on {', '.join(settings.listen)}: {cause}")
    places = ", ".join((*settings.connect, *settings.listen))
    how = "" if settings.tls is None else " Where the authority is, lefleet certs list shows them."
    return CannotOpen(
        f"nothing answers at {places} within {settings.open_timeout_s:g} s. Is a server running "
        f"there (lefleet serve), and are address, password and certificates right?{how}"
    )


def _reply(query: zenoh.Query, served: str, on_question: OnQuestion) -> None:
    """Answer under the concrete key of the two: several servers must be told apart."""
    key = str(query.key_expr) if is_pattern(served) else served
    if is_pattern(key):
        _LOG.debug("a pattern was asked for where one key is needed: %s", key[:200])
        return
    asked = b"" if query.payload is None else query.payload.to_bytes()
    payload = attempt(f"answer for {key}", on_question, Question(key, asked))
    if payload is None:
        query.reply_err(_FAILED)
    else:
        query.reply(key, payload)


def _gathered(answers: Iterable[zenoh.Reply]) -> Answers:
    """All answers, until Zenoh ends the question: when all have come, or at its time-out.

    The caller waits for them: Zenoh would start a thread for a callback, and when the main thread
    has ended, and a robot closes its session, Python starts no more.
    """
    replies, failures, is_complete, size = [], 0, True, 0
    for answer in answers:
        if answer.ok is not None:
            more = len(answer.ok.payload)
            if size + more > MOST_REPLY_BYTES:
                is_complete = False
                continue
            size += more
            replies.append(Reply(str(answer.ok.key_expr), answer.ok.payload.to_bytes()))
        elif answer.err is not None and answer.err.payload.to_bytes() == _FAILED:
            failures += 1
        else:
            # One of Zenoh's own: the time-out, or a node that went away.
            is_complete = False
    return Answers(tuple(replies), failures, is_complete)
