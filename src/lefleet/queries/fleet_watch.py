"""Looks at servers and robots again and again, while somebody wants to know."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from lefleet.errors import LeFleetError
from lefleet.queries.fleet import NO_ROBOTS, FleetFound, FleetMemory, FleetStatus
from lefleet.queries.fleet_cards import GONE
from lefleet_client.remote import RemoteError, discover, discover_robots
from lefleet_client.transport import Transport, TransportError
from lefleet_client.wire import BadKey

_LOG = logging.getLogger(__name__)
_EVERY_S = 1.0
_WANTED_S = 15.0
"""How long one question keeps it looking."""
_ANSWER_S = 1.0
"""How long servers and robots have to answer."""
_LONGEST_WAIT_S = 5.0
"""Between two attempts to reach the network."""
_END_S = 10.0
_START_ONE = "Start a server with: lefleet serve RUN. Where one runs elsewhere, name it: --connect."


class FleetWatch:
    """The newest state of servers and robots.

        watch = FleetWatch(connect)
        watch.status(wait_s=3.0).troubled()
        watch.close()

    The first `status` starts one thread, `fleet watch`, which ends with `close`. It opens a node
    when somebody asks, looks about once a second, and closes the node when nobody has asked for 15
    s. It alone uses the node and the memory of earlier looks, and it calls the subscribers. What
    goes wrong is in `problem` and is tried again, at ever longer intervals; nothing is raised.

    Any thread may call the rest. One condition guards the newest status, who asked when, the
    subscribers and whether it is closed; it is not held while the network is asked, or a
    subscriber called.
    """

    def __init__(self, connect: Callable[[], Transport], *, reads_robots: bool = True) -> None:
        """`connect` opens a node; `reads_robots` is False where an access list forbids that."""
        self._connect = connect
        self._reads_robots = reads_robots
        self._changed = threading.Condition()
        self._newest = FleetStatus()
        self._wanted_until_s = 0.0
        self._is_closed = False
        self._subscribers: list[Callable[[FleetStatus], object]] = []
        self._thread: threading.Thread | None = None
        self._memory = FleetMemory()
        self._node: Transport | None = None

    def status(self, *, wait_s: float = 0.0) -> FleetStatus:
        """The newest one, and keep looking for a while. `wait_s` is for a caller who comes once:
        how long to wait for a look where there was none lately."""
        with self._changed:
            self._wanted_until_s = time.monotonic() + _WANTED_S
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="fleet watch", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._newest.at or self._is_closed, wait_s)
            return self._newest

    def subscribe(self, callback: Callable[[FleetStatus], object]) -> Callable[[], None]:
        """Call `callback` after each look, on this thread; returns what ends that. It does not keep
        looking for the sake of subscribers: whoever shows a status asks for it."""
        with self._changed:
            self._subscribers.append(callback)

        def end() -> None:
            with self._changed, suppress(ValueError):
                self._subscribers.remove(callback)

        return end

    def close(self) -> None:
        """End the thread; closing twice is fine."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_S)

    def _run(self) -> None:
        wait_s = _EVERY_S
        while self._await_question():
            began_s = time.monotonic()
            status = self._look()
            self._tell(status)
            if status.problem or _is_empty(status):
                # An open node does not tell whether it still reaches anybody: a new one does.
                self._drop_node()
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            else:
                wait_s = _EVERY_S
            with self._changed:
                rest_s = began_s + wait_s - time.monotonic()
                self._changed.wait_for(lambda: self._is_closed, max(0.0, rest_s))
        self._drop_node()

    def _await_question(self) -> bool:
        """Return when somebody wants to know; False when it was closed."""
        with self._changed:
            if self._is_closed or self._is_wanted():
                return not self._is_closed
            # Nobody must take it for the present who asks later.
            self._newest = FleetStatus()
        self._drop_node()
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._is_wanted())
            return not self._is_closed

    def _is_wanted(self) -> bool:
        return time.monotonic() < self._wanted_until_s

    def _look(self) -> FleetStatus:
        try:
            if self._node is None:
                self._node = self._connect()
            servers = discover(self._node, timeout_s=_ANSWER_S, with_clients=True)
            robots = discover_robots(self._node, _ANSWER_S) if self._reads_robots else NO_ROBOTS
            return self._memory.look(FleetFound(servers, robots), time.time())
        except (LeFleetError, TransportError, RemoteError, BadKey) as error:
            problem = f"Nothing can be seen of servers and robots: {error}"
            _LOG.debug("%s", problem)
            end = "" if problem.endswith((".", "?")) else "."
            return self._blind(f"{problem}{end} {_START_ONE}")
        except Exception as error:  # noqa: BLE001 - it must keep looking
            _LOG.exception("the fleet cannot be read")
            return self._blind(
                f"Servers and robots cannot be read: {type(error).__name__}: {error}."
            )

    def _blind(self, problem: str) -> FleetStatus:
        """Robots that were there are not forgotten: they may be the ones in trouble."""
        remembered = self._memory.look(FleetFound((), NO_ROBOTS), time.time())
        return replace(remembered, problem=problem)

    def _tell(self, status: FleetStatus) -> None:
        with self._changed:
            self._newest = status
            self._changed.notify_all()
            subscribers = list(self._subscribers)
        for one in subscribers:
            try:
                one(status)
            except Exception:  # noqa: BLE001 - the others want to know too
                _LOG.exception("a subscriber to the fleet failed")

    def _drop_node(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            with suppress(TransportError):
                node.close()


def _is_empty(status: FleetStatus) -> bool:
    return not status.servers and all(one.state == GONE for one in status.robots)
