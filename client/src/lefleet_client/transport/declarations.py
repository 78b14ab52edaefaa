"""What is declared on a Zenoh session until it is closed, and the key expressions for it."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import zenoh

from lefleet_client.transport.errors import BadExpression, Closed
from lefleet_client.transport.exit import TransportThread, inside_zenoh

_LOG = logging.getLogger(__name__)


def expression(text: str) -> zenoh.KeyExpr:
    """A key, or a pattern such as `a/*/b`."""
    try:
        return zenoh.KeyExpr(text)
    except zenoh.ZError:
        raise BadExpression(f"{text[:200]!r} is not a key expression") from None


def concrete(text: str) -> zenoh.KeyExpr:
    """A key without wildcards: the name of one place."""
    if is_pattern(text):
        raise BadExpression(f"{text[:200]!r} is a pattern, and one key is needed")
    return expression(text)


def is_pattern(text: str) -> bool:
    return "*" in text


class Declaration:
    """Undeclares an entity of Zenoh once.

    A signal handler may close while its thread is anywhere in here.
    """

    def __init__(self, entity: Any) -> None:
        self._entity = entity
        self._lock = threading.RLock()
        self.on_close: Callable[[Declaration], None] = lambda _: None

    @property
    def is_closed(self) -> bool:
        return self._entity is None

    def close(self) -> None:
        if self.is_closed:
            return
        with inside_zenoh():
            self._undeclare()
        self.on_close(self)

    def _undeclare(self) -> None:
        with self._lock:
            entity, self._entity = self._entity, None
        if entity is None:
            return
        try:
            entity.undeclare()
        except zenoh.ZError as error:
            _LOG.debug("undeclare: %s", error)


_SHARE = 0.2
_BURST_S = 0.0003
_RECEIVED_BYTE_S = 1e-9
"""What Zenoh's own threads take for a byte that arrives: 0.8 to 1 ns, measured over loopback."""
_LONGEST_PAUSE_S = 0.01


def pause_s(wasted_s: float, passed_s: float) -> float:
    """How long a receiver pauses after messages of no use took so much processor time of this time.

    They get less than 20 % of a core, Zenoh's work for them included. Receivers hold Python's lock,
    so a flood would otherwise slow down every thread that works for others; this way it waits in
    the network.
    """
    return min(max(0.0, wasted_s / _SHARE - passed_s), _LONGEST_PAUSE_S)


class Receiver(Declaration):
    """Hands every item of a subscriber or queryable to `deliver`, on a thread of its own.

    `deliver` returns True for an item that was of use; one that is paced limits the time for
    others. Zenoh would start a thread for a callback too, but as a daemon if a daemon thread
    declares.
    """

    def __init__(
        self, entity: Any, name: str, deliver: Callable[[Any], object], *, is_paced: bool = False
    ) -> None:
        super().__init__(entity)
        self._deliver = deliver
        self._is_paced = is_paced
        try:
            TransportThread(f"zenoh {name}", self._run, entity.handler).start()
        except BaseException:
            self._undeclare()
            raise

    def _run(self, items: Iterable[Any]) -> None:
        began_s, used_s, wasted_s = time.monotonic(), time.thread_time(), 0.0
        for item in items:
            is_useful, size = False, 0 if item.payload is None else len(item.payload)
            try:
                if not self.is_closed:
                    is_useful = self._deliver(item) is True
            except zenoh.ZError as error:
                _LOG.debug("%s: %s", threading.current_thread().name, error)
            # A query is over when it is released, and that must not wait for the next one.
            del item
            before_s, used_s = used_s, time.thread_time()
            if self._is_paced and not is_useful:
                wasted_s += used_s - before_s + size * _RECEIVED_BYTE_S
            if wasted_s > _BURST_S:
                time.sleep(pause_s(wasted_s, time.monotonic() - began_s))
                began_s, wasted_s = time.monotonic(), 0.0


class Watch(Receiver):
    """Hands changes of presence on, and keeps which keys are present; one lock guards those."""

    def __init__(
        self,
        entity: Any,
        pattern: str,
        on_change: Callable[[str, bool], object],
        *,
        is_paced: bool = False,
    ) -> None:
        self._on_change = on_change
        self._keys: set[str] = set()
        self._keys_lock = threading.Lock()
        super().__init__(entity, pattern, self._change, is_paced=is_paced)

    def present(self, pattern: str) -> frozenset[str]:
        """The keys that match."""
        with self._keys_lock:
            if not is_pattern(pattern):
                return frozenset(self._keys & {pattern})
            keys = tuple(self._keys)
        place = expression(pattern)
        return frozenset(key for key in keys if place.intersects(zenoh.KeyExpr(key)))

    def _change(self, sample: zenoh.Sample) -> None:
        key, is_alive = str(sample.key_expr), sample.kind == zenoh.SampleKind.PUT
        with self._keys_lock:
            (self._keys.add if is_alive else self._keys.discard)(key)
        self._on_change(key, is_alive)


class PublisherDeclaration(Declaration):
    """Zenoh cannot undeclare a publisher while another thread uses it, so one lock guards both."""

    def __init__(self, entity: Any, call: Callable[[Callable[[Any], None]], None]) -> None:
        super().__init__(entity)
        self._call = call
        self._use = threading.RLock()

    def put(self, payload: bytes, attachment: bytes) -> None:
        with self._use:
            if self.is_closed:
                raise Closed("the publisher is closed")
            self._call(lambda _: self._entity.put(payload, attachment=attachment))

    def close(self) -> None:
        with self._use:
            super().close()
