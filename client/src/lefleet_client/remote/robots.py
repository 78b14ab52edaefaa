"""What robots report of themselves: a robot publishes its state, operators find and watch it."""

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from lefleet_client import wire
from lefleet_client.remote.checks import robot_fault, shown
from lefleet_client.remote.discovery import read_in_time
from lefleet_client.transport import (
    Closed,
    Declared,
    NoAnswer,
    Qos,
    Question,
    Reply,
    Sample,
    Transport,
    TransportError,
)

_LOG = logging.getLogger(__name__)
_NEWS = Qos(is_reliable=True, is_urgent=False)


class RobotReport:
    """Tells operators the state of one robot, from its program's start until `close`.

        with RobotReport(transport, "arm-7") as report:
            report.publish(RobotStatus(client_id="arm-7", state="streaming"))

    It is present, answers questions with the newest status, and publishes each. Before the first it
    answers that it is connecting. What goes wrong here never reaches the caller, and never stops a
    robot: the first failure of a kind is logged.

    Threads: one thread calls `publish`, which returns as soon as a publication does; it is meant
    for a worker, a few times a second. Questions are answered on a thread of the transport, so a
    worker that hangs shows as a status that grows older. The newest status and its time are
    replaced together, as one reference.
    """

    def __init__(self, transport: Transport, client_id: str) -> None:
        keys = wire.matching_robots(client_id)
        self._key = keys.status
        self._newest = (wire.RobotStatus(client_id=client_id, state="connecting"), time.monotonic())
        self._logged: set[type[Exception]] = set()
        with ExitStack() as declared:
            self._publisher = transport.publisher(keys.status, _NEWS)
            declared.callback(self._publisher.close)
            declared.callback(transport.serve(keys.status, self._answer).close)
            # Last, and closed first: whoever is present can be asked.
            declared.callback(transport.announce(keys.alive).close)
            self._declared = declared.pop_all()

    def publish(self, status: wire.RobotStatus) -> None:
        """Report this status from now on; texts are cut and put on one line."""
        fitting = status.fitting()
        try:
            body = self._body(fitting)
            self._newest = (fitting, time.monotonic())
            self._publisher.put(body, b"")
        except Closed:
            pass  # its program is ending
        except (wire.BadBody, TransportError) as error:
            if type(error) not in self._logged:
                self._logged.add(type(error))
                _LOG.warning("%s: the status is not published: %s", self._key, error)

    def close(self) -> None:
        """Be absent from now on; closing twice is fine."""
        self._declared.close()

    def __enter__(self) -> "RobotReport":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _body(self, status: wire.RobotStatus) -> bytes:
        """Read again, as readers do: what they would ignore is better noticed here."""
        body = wire.ROBOT_STATUS.encode(status)
        if fault := robot_fault(self._key, wire.ROBOT_STATUS.decode(body)):
            raise wire.BadBody(f"robot status: {fault}")
        return body

    def _answer(self, _: Question) -> bytes:
        status, written_s = self._newest
        return wire.ROBOT_STATUS.encode(status.aged(time.monotonic() - written_s))


@dataclass(frozen=True)
class RobotsFound:
    """Robots by name; `silent` are those that are present and do not answer: their programs hang.

    Two robots with one name are both in `robots`.
    """

    robots: tuple[wire.RobotStatus, ...]
    silent: tuple[str, ...]


def discover_robots(transport: Transport, timeout_s: float = 1.0) -> RobotsFound:
    """Every robot that reports, as it reports; takes the whole time only if one is silent.

    A status that cannot be of its key is ignored, with a warning, and its robot is silent.
    """
    every = wire.matching_robots()
    before = _present(transport, timeout_s)
    answers = transport.ask(every.status, b"", timeout_s)
    found, _ = read_in_time(answers.replies, _read, timeout_s)
    robots = sorted((status for _, status in found), key=lambda one: (one.client_id, one.age_s))
    silent = before - {wire.parse_robot_key(key).robot for key, _ in found}
    if silent:
        # Those that have left in the meantime could not answer.
        silent &= _present(transport, timeout_s)
    return RobotsFound(tuple(robots), tuple(sorted(silent)))


def watch_robots(transport: Transport, on_status: Callable[[wire.RobotStatus], object]) -> Declared:
    """Call `on_status` with each status that a robot publishes, on a thread of the transport.

    It gets no status of before, for which there is `discover_robots`, and none of a robot that has
    left: `transport.watch(matching_robots().alive, ...)` tells who comes and goes. What cannot be a
    robot's is ignored; the first is logged.
    """
    is_logged = False

    def deliver(sample: Sample) -> bool:
        nonlocal is_logged
        if sample.size > wire.ROBOT_STATUS.limits.max_bytes:
            read: wire.RobotStatus | str = f"{sample.size} bytes"
        else:
            read = _read(Reply(sample.key, sample.payload))
        if isinstance(read, str):
            if not is_logged:
                _LOG.warning("%s: the status is ignored: %s", shown(sample.key), read)
            is_logged = True
            return False
        on_status(read)
        return True

    return transport.subscribe(wire.matching_robots().status, deliver)


def _present(transport: Transport, timeout_s: float) -> set[str]:
    """Names of robots that are present; none where nothing is known of it."""
    try:
        keys = transport.present(wire.matching_robots().alive, timeout_s)
    except NoAnswer:
        return set()
    return {name for key in keys if (name := _name(key))}


def _name(alive_key: str) -> str:
    """The robot that is present; empty where the key is no robot's."""
    try:
        return wire.parse_robot_key(alive_key).robot
    except wire.BadKey as error:
        _LOG.debug("%s", error)
        return ""


def _read(reply: Reply) -> wire.RobotStatus | str:
    """The status, or what is wrong with it."""
    try:
        status = wire.ROBOT_STATUS.decode(reply.payload)
    except wire.BadBody as error:
        return shown(str(error))
    return robot_fault(reply.key, status) or status
