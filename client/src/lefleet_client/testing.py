"""A network inside one process, for the tests of programs that use a `Transport`.

Neither sockets nor ports, and nothing is ever lost; quality of service changes nothing. Keys match
as in Zenoh. Nothing else in this package imports it.

    network = MemoryNetwork()
    with MemoryTransport(network) as robot, MemoryTransport(network) as server:
        server.serve("status", lambda question: b"ready")
        assert ask_one(robot, "status", b"", timeout_s=1.0) == b"ready"
"""

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import zenoh

from lefleet_client.transport import (
    Answers,
    Closed,
    Declared,
    Publisher,
    Qos,
    Question,
    Reply,
    Sample,
)
from lefleet_client.transport.declarations import concrete, expression, is_pattern
from lefleet_client.transport.seam import OnPresence, OnQuestion, OnSample, attempt

__all__ = ["MemoryNetwork", "MemoryTransport"]

_LOG = logging.getLogger(__name__)
_JOIN_S = 2.0

D = TypeVar("D", bound="_Declared")


class _CallQueue:
    """Runs calls in order on a thread of its own, until closed: one at a time, as Zenoh does.

    Any thread may push. Calls that are still waiting when it closes are cancelled, each by its own
    `cancel`, so that no question waits for them.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], Callable[[], None]]] = (
            queue.SimpleQueue()
        )
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"memory {name}", daemon=True)
        self._thread.start()

    def push(self, job: Callable[[], None], cancel: Callable[[], None] = lambda: None) -> None:
        self._jobs.put((job, cancel))

    def close(self) -> None:
        """Stop; waits for the call in flight, unless that one closes."""
        self._is_closed.set()
        self.push(lambda: None)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._is_closed.is_set():
            job, cancel = self._jobs.get()
            if self._is_closed.is_set():
                cancel()
                break
            attempt(self._thread.name, job)
        while not self._jobs.empty():
            self._jobs.get()[1]()


class _Gathering:
    """Filled by the threads that answer, read by the one who asks; one condition guards all.

    It ends when each of its parts has ended.
    """

    def __init__(self, parts: int) -> None:
        self._changed = threading.Condition()
        self._open_parts = parts
        self._replies: list[Reply] = []
        self._failures = 0
        self._is_cut_off = False

    def add(self, reply: Reply) -> None:
        with self._changed:
            self._replies.append(reply)

    def add_failure(self) -> None:
        with self._changed:
            self._failures += 1

    def cut_off(self) -> None:
        """An answer that was to come will not come."""
        with self._changed:
            self._is_cut_off = True

    def end_part(self) -> None:
        with self._changed:
            self._open_parts -= 1
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> Answers:
        with self._changed:
            has_ended = self._changed.wait_for(lambda: self._open_parts <= 0, timeout_s)
            is_complete = has_ended and not self._is_cut_off
            return Answers(tuple(self._replies), self._failures, is_complete)


@dataclass(frozen=True, eq=False)
class _Endpoint:
    """A callback under an expression, and the thread that calls it."""

    text: str
    expression: zenoh.KeyExpr
    callback: Callable[..., Any]
    calls: _CallQueue

    @classmethod
    def of(cls, text: str, callback: Callable[..., Any]) -> "_Endpoint":
        place = expression(text)
        return cls(text, place, callback, _CallQueue(text))


@dataclass(frozen=True)
class MemoryNetwork:
    """What its nodes share; one lock guards it, and is never held while a callback runs."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    subscriptions: list[_Endpoint] = field(default_factory=list)
    services: list[_Endpoint] = field(default_factory=list)
    watches: list[_Endpoint] = field(default_factory=list)
    tokens: Counter[str] = field(default_factory=Counter)

    def push(self, endpoints: list[_Endpoint], key: str, *values: object) -> None:
        """Call every endpoint that matches the key; with the lock held."""
        place = expression(key)
        for endpoint in endpoints:
            if endpoint.expression.intersects(place):
                endpoint.calls.push(partial(endpoint.callback, *values))


class _Declared:
    def __init__(self, undeclare: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._undeclare = undeclare
        self._is_closed = False

    def close(self) -> None:
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._undeclare()


class _Publisher(_Declared):
    def __init__(self, network: MemoryNetwork, key: str) -> None:
        super().__init__(lambda: None)
        self._network = network
        self._key = key

    def put(self, payload: bytes, attachment: bytes) -> None:
        if self._is_closed:
            raise Closed("the publisher is closed")
        sample = Sample(self._key, bytes(payload), bytes(attachment))
        with self._network.lock:
            self._network.push(self._network.subscriptions, self._key, sample)


class MemoryTransport:
    """A node of a network in memory.

    Each subscription, service and watch has a thread of its own, which ends with it. One lock
    guards the list of what is declared.
    """

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._lock = threading.Lock()
        self._declared: list[_Declared] = []
        self._is_closed = False

    def publisher(self, key: str, qos: Qos) -> Publisher:  # noqa: ARG002
        concrete(key)
        return self._keep(_Publisher(self._network, key))

    def subscribe(self, pattern: str, on_sample: OnSample) -> Declared:
        return self._declare(self._network.subscriptions, pattern, on_sample)

    def serve(self, pattern: str, on_question: OnQuestion) -> Declared:
        return self._declare(self._network.services, pattern, on_question)

    def ask(self, pattern: str, payload: bytes, timeout_s: float) -> Answers:
        self._require_open()
        place = expression(pattern)
        with self._network.lock:
            asked = [one for one in self._network.services if one.expression.intersects(place)]
            gathering = _Gathering(len(asked))
            for one in asked:
                key = pattern if is_pattern(one.text) else one.text
                job = partial(_answer, one, Question(key, bytes(payload)), gathering)
                one.calls.push(job, partial(_cancel, gathering))
        return gathering.wait(timeout_s)

    def announce(self, key: str) -> Declared:
        concrete(key)
        self._require_open()
        network = self._network
        with network.lock:
            network.tokens[key] += 1
            network.push(network.watches, key, key, True)
        return self._keep(_Declared(partial(self._vanish, key)))

    def watch(self, pattern: str, on_presence: OnPresence) -> Declared:
        return self._declare(self._network.watches, pattern, on_presence)

    def present(self, pattern: str, timeout_s: float) -> frozenset[str]:  # noqa: ARG002
        self._require_open()
        with self._network.lock:
            return frozenset(self._alive(expression(pattern)))

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            declared, self._declared = self._declared, []
        for one in reversed(declared):
            one.close()

    def __enter__(self) -> "MemoryTransport":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _declare(
        self, endpoints: list[_Endpoint], pattern: str, callback: Callable[..., Any]
    ) -> Declared:
        self._require_open()
        endpoint = _Endpoint.of(pattern, callback)
        with self._network.lock:
            endpoints.append(endpoint)
            if endpoints is self._network.watches:
                for key in self._alive(endpoint.expression):
                    endpoint.calls.push(partial(callback, key, True))
        return self._keep(_Declared(partial(self._remove, endpoints, endpoint)))

    def _remove(self, endpoints: list[_Endpoint], endpoint: _Endpoint) -> None:
        with self._network.lock:
            endpoints.remove(endpoint)
        endpoint.calls.close()

    def _vanish(self, key: str) -> None:
        network = self._network
        with network.lock:
            network.tokens[key] -= 1
            if not network.tokens[key]:
                del network.tokens[key]
                network.push(network.watches, key, key, False)

    def _alive(self, pattern: zenoh.KeyExpr) -> list[str]:
        return [key for key in self._network.tokens if pattern.intersects(expression(key))]

    def _require_open(self) -> None:
        if self._is_closed:
            raise Closed("the transport is closed")

    def _keep(self, declared: D) -> D:
        with self._lock:
            is_late = self._is_closed
            if not is_late:
                self._declared.append(declared)
        if is_late:
            declared.close()
            raise Closed("the transport is closed")
        return declared


def _answer(service: _Endpoint, question: Question, gathering: _Gathering) -> None:
    if is_pattern(question.key):
        _LOG.debug("a pattern was asked for where one key is needed: %s", question.key[:200])
    elif (payload := attempt(f"answer for {question.key}", service.callback, question)) is None:
        gathering.add_failure()
    else:
        gathering.add(Reply(question.key, bytes(payload)))
    gathering.end_part()


def _cancel(gathering: _Gathering) -> None:
    gathering.cut_off()
    gathering.end_part()
