"""A control loop in single steps, and a server whose chunks tell where each action came from."""

import threading
import time
from collections import deque

import msgspec
import numpy as np

from lefleet_client import wire
from lefleet_client.stream import ActionStream, StreamSettings
from lefleet_client.transport import Closed
from tests.client.remote.scripted import CONTRACT, STATE, ServerRequest, capabilities
from tests.client.transport.waiting import eventually

FPS = 50.0
CHUNK = 20
NAMES = CONTRACT.action_names
WITHOUT_CAMERAS = msgspec.structs.replace(CONTRACT, cameras={})
USUAL = {"request_timeout_s": 20.0, "handshake_timeout_s": 0.3, "max_offline_s": 30.0}


def serves(**changes) -> wire.Capabilities:
    """Chunks of twenty steps for a robot without cameras."""
    usual = {"contract": WITHOUT_CAMERAS, "chunk_size": CHUNK, "n_action_steps": CHUNK}
    return msgspec.structs.replace(capabilities(), **{**usual, **changes})


def tell(request: ServerRequest, **changes) -> None:
    """A chunk whose rows are (first number of the observed state, step)."""
    steps = request.server.capabilities.chunk_size
    rows = np.stack([np.full(steps, request.state[0]), np.arange(steps)], axis=1)
    chunk = wire.encode_tensor(rows.astype(np.float32))
    request.chunk(**{"chunk_model": chunk, "chunk_robot": chunk, **changes})


class Holding:
    """Answers the first requests at once, later ones when it is told.

    A stream asks four times before the robot moves, to measure the link.
    """

    def __init__(self, at_once: int = 4) -> None:
        self.held: deque[ServerRequest] = deque()
        self.seen: list[ServerRequest] = []
        self._at_once = at_once

    def __call__(self, request: ServerRequest) -> None:
        if request.body.probe:
            request.probed()
        elif self._at_once:
            self._at_once -= 1
            tell(request)
        elif request.header.seq_id not in [one.header.seq_id for one in self.seen]:
            self.seen.append(request)
            self.held.append(request)

    def answer(self, **changes) -> None:
        """Answer what is in flight."""
        eventually(lambda: self.held)
        tell(self.held.popleft(), **changes)


class Clock:
    """The stream's time, which a test lets pass."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Loop:
    """A robot's control loop; `tick` is one turn of it."""

    def __init__(self, policy, *, clock: Clock | None = None, start: bool = True, **options):
        settings = {name: options.pop(name) for name in list(options) if name in SETTINGS}
        self.deaths = 0
        options = {"action_names": NAMES, "on_dead": self._die, **options}
        self.stream = ActionStream(
            policy, StreamSettings(**{"fps": FPS, **USUAL, **settings}), **options
        )
        self.clock = clock
        self.now = 0
        self.executed: list[np.ndarray | None] = []
        if start:
            self.stream.start()
            self.stream.resume()

    def tick(self, count: int = 1) -> np.ndarray | None:
        """The last of so many actions."""
        for _ in range(count):
            self.stream.notify({STATE: np.array([self.now, 0, 0], np.float32)})
            self.executed.append(self.stream.next_action())
            self.now += 1
            if self.clock is not None:
                self.clock.now_s += 1 / self.stream.settings.fps
        return self.executed[-1]

    def tick_until(self, is_true, timeout_s: float = 20.0) -> None:
        """In real time, at the control rate."""
        deadline_s = time.monotonic() + timeout_s
        self.tick()
        while not is_true():
            assert time.monotonic() < deadline_s, f"it never happened: {self.stream.status()}"
            time.sleep(1 / FPS)
            self.tick()

    def settle(self) -> None:
        """Return when the worker has ended its request."""
        eventually(lambda: not self.stream._is_in_flight and self.stream._work is None)

    @property
    def state(self):
        return self.stream.status().state

    @property
    def mode(self) -> str:
        return self.state.mode.value

    def is_in(self, mode: str):
        return lambda: self.mode == mode

    def _die(self) -> None:
        self.deaths += 1


SETTINGS = StreamSettings.__dataclass_fields__.keys()


class FrozenPublisher:
    """A put that does not return, as with a dead link."""

    def __init__(self, publisher, gate) -> None:
        self._publisher = publisher
        self._gate = gate

    def put(self, payload: bytes, attachment: bytes) -> None:
        self._gate.pass_through()
        self._publisher.put(payload, attachment)

    def close(self) -> None:
        self._publisher.close()


class Gate:
    """Open until it is shut; threads that come to a shut gate wait there."""

    def __init__(self) -> None:
        self._may_pass = threading.Event()
        self._may_pass.set()
        self.is_reached = threading.Event()

    def shut(self) -> None:
        self._may_pass.clear()

    def open(self) -> None:
        self._may_pass.set()

    def pass_through(self) -> None:
        if not self._may_pass.is_set():
            self.is_reached.set()
            if not self._may_pass.wait(20):
                raise Closed("the gate was never opened")
