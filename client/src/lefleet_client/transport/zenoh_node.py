"""The seam over Zenoh."""

import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import zenoh

from lefleet_client.transport.callbacks import attempt
from lefleet_client.transport.declarations import (
    Declaration,
    Mark,
    PublisherDeclaration,
    closed_is_told,
)
from lefleet_client.transport.ending import ENDING
from lefleet_client.transport.errors import CannotOpen, Closed, Forked, NoAnswer
from lefleet_client.transport.expressions import concrete, expression, is_pattern
from lefleet_client.transport.seam import (
    Answer,
    Answers,
    Declared,
    Deposit,
    Publisher,
    Qos,
    Question,
    Reply,
    Sample,
    Seen,
)
from lefleet_client.transport.settings import ZenohSettings, zenoh_config

_LOG = logging.getLogger(__name__)
_FAILED = b"lefleet: failed to answer"

D = TypeVar("D", bound="Declaration")

_USED_IN: set[int] = set()
"""Processes that have opened a session: Zenoh's threads do not follow into a forked child."""


class ZenohTransport:
    """A node of a Zenoh network.

    Threads are Zenoh's: one per subscription, service and watch. One lock guards what is declared;
    it is never held while Zenoh is called, and a signal handler may close while its thread has it.
    """

    def __init__(self, session: zenoh.Session) -> None:
        self._session = session
        self._lock = threading.RLock()
        self._declared: dict[Declaration, None] = {}
        self._is_closed = False
        self._pid = os.getpid()
        ENDING.add(self, self.close)

    @classmethod
    def open(cls, settings: ZenohSettings) -> "ZenohTransport":
        config = zenoh_config(settings)
        if _USED_IN - {os.getpid()}:
            raise Forked(
                "Zenoh was used before this process was forked, and does not work in it; use the "
                "spawn start method"
            )
        _USED_IN.add(os.getpid())
        try:
            return cls(zenoh.open(config))
        except zenoh.ZError as error:
            _LOG.debug("zenoh.open: %s", error)
            raise CannotOpen(_why_not(settings, str(error))) from None

    def publisher(self, key: str, qos: Qos) -> Publisher:
        place = concrete(key)
        with self._live() as session:
            entity = session.declare_publisher(
                place,
                congestion_control=zenoh.CongestionControl.DROP,
                priority=zenoh.Priority.INTERACTIVE_HIGH if qos.is_urgent else zenoh.Priority.DATA,
                express=qos.is_urgent,
                reliability=(
                    zenoh.Reliability.RELIABLE if qos.is_reliable else zenoh.Reliability.BEST_EFFORT
                ),
            )
        return self._keep(PublisherDeclaration(entity, Mark()))

    def subscribe(self, pattern: str, deposit: Deposit) -> Declared:
        closed = Mark()

        def deliver(sample: zenoh.Sample) -> None:
            if closed.is_set():
                return
            attachment = b"" if sample.attachment is None else sample.attachment.to_bytes()
            received = Sample(str(sample.key_expr), sample.payload.to_bytes(), attachment)
            attempt(f"deposit for {pattern}", deposit, received)

        place = expression(pattern)
        with self._live() as session:
            entity = session.declare_subscriber(place, deliver)
        return self._keep(Declaration(entity, closed))

    def serve(self, pattern: str, answer: Answer) -> Declared:
        closed = Mark()

        def asked(query: zenoh.Query) -> None:
            with query:
                if not closed.is_set():
                    _reply(query, pattern, answer)

        place = expression(pattern)
        with self._live() as session:
            entity = session.declare_queryable(place, asked)
        return self._keep(Declaration(entity, closed))

    def ask(self, pattern: str, payload: bytes, timeout_s: float) -> Answers:
        place = expression(pattern)
        with self._live() as session:
            replies = session.get(
                place,
                # Ask all of several servers, and hear all: by default one reply hides the others.
                target=zenoh.QueryTarget.ALL,
                consolidation=zenoh.ConsolidationMode.NONE,
                timeout=timeout_s,
                payload=payload,
            )
            answers = _gathered(replies)
        self._require_open()
        return answers

    def announce(self, key: str) -> Declared:
        place = concrete(key)
        with self._live() as session:
            token = session.liveliness().declare_token(place)
        return self._keep(Declaration(token, Mark()))

    def watch(self, pattern: str, seen: Seen) -> Declared:
        closed = Mark()

        def changed(sample: zenoh.Sample) -> None:
            if not closed.is_set():
                is_alive = sample.kind == zenoh.SampleKind.PUT
                attempt(f"watch of {pattern}", seen, str(sample.key_expr), is_alive)

        place = expression(pattern)
        with self._live() as session:
            entity = session.liveliness().declare_subscriber(place, changed, history=True)
        return self._keep(Declaration(entity, closed))

    def present(self, pattern: str, timeout_s: float) -> frozenset[str]:
        place = expression(pattern)
        with self._live() as session:
            answers = _gathered(session.liveliness().get(place, timeout=timeout_s))
        self._require_open()
        if not answers.replies and not answers.is_complete:
            raise NoAnswer(f"{pattern}: nobody said within {timeout_s:g} s who is alive")
        return frozenset(reply.key for reply in answers.replies)

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            declared = list(self._declared)
        for entity in reversed(declared):
            entity.close()
        if not was_closed:
            ENDING.remove(self)
            self._session.close()  # type: ignore[no-untyped-call]

    def __enter__(self) -> "ZenohTransport":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _live(self) -> Iterator[zenoh.Session]:
        if os.getpid() != self._pid:
            raise Forked(
                "this transport was opened before a fork; use the spawn start method, and open one "
                "in the child"
            )
        self._require_open()
        with closed_is_told():
            yield self._session

    def _require_open(self) -> None:
        if self._is_closed:
            raise Closed("the transport is closed")

    def _keep(self, declared: D) -> D:
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


def _why_not(settings: ZenohSettings, said: str) -> str:
    """Zenoh tells apart what it cannot listen on, but not what it cannot connect to."""
    if "listener" in said:
        busy = "another program listens there; stop it, or take another port"
        cause = busy if "in use" in said else "is that an address of this machine, and allowed?"
        return f"cannot listen on {', '.join(settings.listen)}: {cause}"
    places = ", ".join((*settings.connect, *settings.listen))
    return (
        f"no Zenoh session with {places} within {settings.open_timeout_s:g} s: is a router or "
        "server there, and are address, password and certificates right?"
    )


def _reply(query: zenoh.Query, served: str, answer: Answer) -> None:
    """Answer under the concrete key of the two: several servers must be told apart."""
    key = str(query.key_expr) if is_pattern(served) else served
    if is_pattern(key):
        _LOG.warning("a pattern was asked for where one key is needed: %s", key[:200])
        return
    asked = b"" if query.payload is None else query.payload.to_bytes()
    payload = attempt(f"answer for {key}", answer, Question(key, asked))
    if payload is None:
        query.reply_err(_FAILED)
    else:
        query.reply(key, payload)


def _gathered(answers: Iterable[zenoh.Reply]) -> Answers:
    """All answers, until Zenoh ends the question: when everybody has answered, or at its time-out.

    They are waited for here and not called back with: Zenoh would start a thread for callbacks, and
    at the end of a program, when a robot says goodbye, Python starts no more.
    """
    replies, failures, is_complete = [], 0, True
    for answer in answers:
        if answer.ok is not None:
            replies.append(Reply(str(answer.ok.key_expr), answer.ok.payload.to_bytes()))
        elif answer.err is not None and answer.err.payload.to_bytes() == _FAILED:
            failures += 1
        else:
            # One of Zenoh's own: the time-out, or a node that went away.
            is_complete = False
    return Answers(tuple(replies), failures, is_complete)
