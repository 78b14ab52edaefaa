"""What is declared on a Zenoh session, until it is closed."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import zenoh

from lefleet_client.transport.errors import Closed

_LOG = logging.getLogger(__name__)


@contextmanager
def closed_is_told() -> Iterator[None]:
    """Zenoh fails with everything that is already closed on the other side of its border."""
    try:
        yield
    except zenoh.ZError as error:
        raise Closed(f"the transport is closed: {error}") from None


class Mark:
    """Set once. It has no lock, so that a signal handler may interrupt whoever sets it."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


class Declaration:
    """Undeclares once; `closed` is set first, so that late callbacks know."""

    def __init__(self, entity: Any, closed: Mark) -> None:
        self._entity = entity
        self._closed = closed
        self._lock = threading.RLock()
        self.on_close: Callable[[Declaration], None] = lambda _: None

    def close(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        self.on_close(self)
        try:
            self._entity.undeclare()
        except zenoh.ZError as error:
            _LOG.debug("undeclare: %s", error)


class PublisherDeclaration(Declaration):
    """Zenoh cannot undeclare a publisher while another thread uses it, so one lock guards both."""

    def __init__(self, entity: Any, closed: Mark) -> None:
        super().__init__(entity, closed)
        self._use = threading.RLock()

    def put(self, payload: bytes, attachment: bytes) -> None:
        with self._use:
            if self._closed.is_set():
                raise Closed("the publisher is closed")
            with closed_is_told():
                self._entity.put(payload, attachment=attachment)

    def close(self) -> None:
        with self._use:
            super().close()
