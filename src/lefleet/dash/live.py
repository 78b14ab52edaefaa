"""Watches the ledger and tells open pages what has changed."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from nicegui import Event

from lefleet.errors import LeFleetError

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.25
_PROGRESS_EVERY = 4
"""Looks between two updates of what changes without an event, such as a stage's progress."""


class Change(NamedTuple):
    """What open pages are told."""

    is_event: bool
    """False: only time has passed, and progress may have."""


class Live:
    """One task of the server's event loop; `changed` calls what open pages subscribed.

    The ledger is read in a worker thread, so that a slow disk never stops the pages.
    """

    def __init__(self, newest: Callable[[], tuple[int, ...]]) -> None:
        """`newest` are the ids of the newest event, label and edit of a page."""
        self.changed: Event[[Change]] = Event()
        self._newest = newest
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="ledger watch")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        seen: tuple[int, ...] = ()
        looks = 0
        while True:
            await asyncio.sleep(_LOOK_S)
            looks += 1
            try:
                newest = await asyncio.to_thread(self._newest)
            except LeFleetError as error:
                # A ledger that is being migrated, or a disk that is away: the pages say so.
                _LOG.debug("The ledger cannot be read: %s", error)
                newest = ()
            if newest != seen:
                seen = newest
                self.changed.emit(Change(is_event=True))
            elif looks % _PROGRESS_EVERY == 0:
                self.changed.emit(Change(is_event=False))
