"""The same seam inside one process, for unit tests: no sockets and no ports.

Matching is Zenoh's. Nothing is ever lost here, and quality of service changes nothing.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import zenoh

from lefleet_client.transport.callbacks import attempt
from lefleet_client.transport.errors import Closed
from lefleet_client.transport.expressions import concrete, expression, is_pattern
from lefleet_client.transport.gathering import Gathering
from lefleet_client.transport.lane import Lane
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

_LOG = logging.getLogger(__name__)

D = TypeVar("D", bound="_Declared")


@dataclass(frozen=True, eq=False)
class _Endpoint:
    """A callback under an expression, and the thread that calls it."""

    text: str
    expression: zenoh.KeyExpr
    callback: Callable[..., Any]
    lane: Lane

    @classmethod
    def of(cls, text: str, callback: Callable[..., Any]) -> "_Endpoint":
        place = expression(text)
        return cls(text, place, callback, Lane(text))


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
                endpoint.lane.push(partial(endpoint.callback, *values))


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

    def subscribe(self, pattern: str, deposit: Deposit) -> Declared:
        return self._declare(self._network.subscriptions, pattern, deposit)

    def serve(self, pattern: str, answer: Answer) -> Declared:
        return self._declare(self._network.services, pattern, answer)

    def ask(self, pattern: str, payload: bytes, timeout_s: float) -> Answers:
        self._require_open()
        place = expression(pattern)
        with self._network.lock:
            asked = [one for one in self._network.services if one.expression.intersects(place)]
            gathering = Gathering(len(asked))
            for one in asked:
                key = pattern if is_pattern(one.text) else one.text
                job = partial(_answer, one, Question(key, bytes(payload)), gathering)
                one.lane.push(job, partial(_cancel, gathering))
        return gathering.wait(timeout_s)

    def announce(self, key: str) -> Declared:
        concrete(key)
        self._require_open()
        network = self._network
        with network.lock:
            network.tokens[key] += 1
            network.push(network.watches, key, key, True)
        return self._keep(_Declared(partial(self._vanish, key)))

    def watch(self, pattern: str, seen: Seen) -> Declared:
        return self._declare(self._network.watches, pattern, seen)

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
                    endpoint.lane.push(partial(callback, key, True))
        return self._keep(_Declared(partial(self._remove, endpoints, endpoint)))

    def _remove(self, endpoints: list[_Endpoint], endpoint: _Endpoint) -> None:
        with self._network.lock:
            endpoints.remove(endpoint)
        endpoint.lane.close()

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


def _answer(service: _Endpoint, question: Question, gathering: Gathering) -> None:
    if is_pattern(question.key):
        _LOG.warning("a pattern was asked for where one key is needed: %s", question.key[:200])
    elif (payload := attempt(f"answer for {question.key}", service.callback, question)) is None:
        gathering.add_failure()
    else:
        gathering.add(Reply(question.key, bytes(payload)))
    gathering.end_part()


def _cancel(gathering: Gathering) -> None:
    gathering.cut_off()
    gathering.end_part()
