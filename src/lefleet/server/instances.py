"""Other servers under this server's name: refused at start, resolved while running.

Two servers under one name would both answer every observation, perhaps with different checkpoints.
So a name is taken within its service, whatever model and revision the other server has there: the
keys that are asked leave these two open.
Every start of a server has an instance id of its own, which begins with the time of the start. So
a restarted server differs from a second one, and both of two agree which of them started later.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator

from lefleet.errors import BadInput
from lefleet_client import wire
from lefleet_client.remote.checks import status_fault
from lefleet_client.transport import NoAnswer, Transport, TransportError, is_gone

_LOG = logging.getLogger(__name__)
_ASK_S = 1.0
CHECK_EVERY_S = 5.0
"""How often a running server looks for others under its name."""
_MOST_SEEN = 64
"""So many others are remembered and logged at most: who makes up ids makes up many."""
_SLACK_S = 0.5
"""For the news that a lease has ended to arrive."""


def new_instance_id() -> str:
    """Milliseconds since 1970, then something random: ids sort by the start of their servers."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(4)}"


def require_free_name(transport: Transport, keys: wire.ServerKeys, lease_s: float) -> None:
    """Raise BadInput if another server runs under this name.

    The token of a server that was killed just now disappears within one lease, so that is waited
    for before the name counts as taken.
    """
    if _is_free(transport, keys):
        return
    _LOG.warning("event=name_taken server=%s waiting_s=%g", keys.server, lease_s + _SLACK_S)
    has_changed = threading.Event()
    watch = transport.watch(keys.alive, lambda _, is_alive: None if is_alive else has_changed.set())
    try:
        has_changed.wait(lease_s + _SLACK_S)
    finally:
        watch.close()
    if not _is_free(transport, keys):
        others = ", ".join(one.instance_id for one in _statuses(transport, keys))
        raise name_taken(keys.server, others or "unknown: it does not answer")


def name_taken(server: str, instance: str) -> BadInput:
    return BadInput(
        f"server_name: another server runs under the name {server} (instance {instance}).",
        "Stop it, or give this one another --server_name; with TLS, a certificate of its own.",
    )


def _statuses(transport: Transport, keys: wire.ServerKeys) -> Iterator[wire.ServerStatus]:
    """Of every server that answers under this name, also this one. Those are skipped that cannot
    be read, or cannot be of the server whose key they came from."""
    for reply in transport.ask(keys.status, b"", _ASK_S).replies:
        try:
            status = wire.STATUS.decode(reply.payload)
            fault = status_fault(reply.key, status)
        except wire.WireError as error:
            fault = str(error)
        if fault:
            _LOG.debug("event=status_not_read server=%s reason=%r", keys.server, fault)
        else:
            yield status


def _is_free(transport: Transport, keys: wire.ServerKeys) -> bool:
    try:
        return is_gone(transport, keys.alive, _ASK_S)
    except NoAnswer:
        # Without an answer nothing is known; the watch finds a second server later.
        return True


class InstanceWatch:
    """One thread, `instances`: looks for other servers under this server's name.

    They can appear when two start at the same time, or when a partition of the network heals. The
    one that started later gives way: `give_way` is called once, with the other's status. A server
    that drains is ignored, because it is about to go. Only the thread writes what it has seen.
    """

    def __init__(
        self,
        transport: Transport,
        keys: wire.ServerKeys,
        instance_id: str,
        give_way: Callable[[wire.ServerStatus], None],
    ) -> None:
        self._transport = transport
        self._keys = keys
        self._instance_id = instance_id
        self._give_way = give_way
        self._seen: set[str] = set()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="instances", daemon=True)

    @property
    def seen(self) -> int:
        """Other servers that were seen under this name, since the start; at most 64 are counted."""
        return len(self._seen)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        if self._thread.is_alive():
            self._thread.join(_ASK_S * 3)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                if (winner := self._earlier_instance()) is not None:
                    self._give_way(winner)
                    return
            except TransportError as error:
                _LOG.debug("event=instances_not_known reason=%r", str(error))
            self._is_stopping.wait(CHECK_EVERY_S)

    def _earlier_instance(self) -> wire.ServerStatus | None:
        """Another running server under this name that started before this one."""
        earlier = None
        for status in _statuses(self._transport, self._keys):
            other = status.instance_id
            if other == self._instance_id or status.draining:
                continue
            is_earlier = other < self._instance_id
            if other not in self._seen and len(self._seen) < _MOST_SEEN:
                self._seen.add(other)
                _LOG.error(
                    "event=second_instance server=%s own=%s other=%s other_digest=%s: %s drains",
                    self._keys.server,
                    self._instance_id,
                    other,
                    status.capabilities.digest[:12],
                    "this one" if is_earlier else "the other",
                )
            if is_earlier:
                earlier = status
        return earlier
