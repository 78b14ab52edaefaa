"""What a control loop calls: observations in, actions out, at once."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from lefleet_client.remote import RemoteChunk, RemotePolicy
from lefleet_client.stream.failsafe import (
    FailSafe,
    FailSafeEvent,
    FailSafeLimits,
    Happened,
    Mode,
    Starved,
    advance,
)
from lefleet_client.stream.fallback import FallbackLadder
from lefleet_client.stream.queue import ActionQueue, Origin, QueueSnapshot, steps_of
from lefleet_client.stream.settings import StreamSettings, plan
from lefleet_client.stream.timing import RoundTrips, buffer_s
from lefleet_client.stream.watch import Watch
from lefleet_client.stream.worker import Worker, warm_up

Observation = Any
"""What the control loop observes, as it is; the worker makes arrays of it."""
Positions = Callable[[Observation], NDArray[Any]]
"""The present positions in the order of the actions, NaN where unknown."""


@dataclass(frozen=True)
class Work:
    """A request that is due: what was observed, and what was left to execute at that moment."""

    observations: tuple[Observation, ...]
    """As many as the policy looks at, or as there are; the newest is the last."""
    observed_at_s: float
    before: QueueSnapshot
    episode: int
    generation: int


@dataclass(frozen=True)
class Executed:
    """Where the newest action came from; without an origin it was a fallback."""

    origin: Origin | None
    step: int
    age_s: float


@dataclass(frozen=True)
class StreamStatus:
    """One moment, for people and recorders."""

    state: FailSafe
    is_paused: bool
    episode: int
    queued: int
    executed: int
    fallbacks: int
    dropped: int
    """Chunks that came for an episode that was over, or during a pause."""
    action_age_s: float
    last_round_trip_s: float
    p95_round_trip_s: float


class ActionStream:
    """Executes chunks of a remote policy at the control rate, and survives its network.

    Threads: the control loop calls `notify`, `next_action`, `reset`, `pause` and `resume`. The
    worker sends observations and merges chunks. The watch lets time pass when the loop does not,
    logs what happened and publishes the robot's state. One lock guards all that they share; it is
    held for microseconds, never while something is sent, encoded, logged or awaited.

    A request is prepared by the control loop in `notify`, so that the observation and the actions
    that were left belong to the same tick. `generation` counts resets and pauses: a chunk that was
    asked for before one of them is dropped.
    """

    def __init__(
        self,
        policy: RemotePolicy,
        settings: StreamSettings,
        *,
        action_names: Sequence[str],
        convert: Callable[[Observation], dict[str, NDArray[Any]]] = dict,
        positions: Positions | None = None,
        task: str = "",
        robot_type: str = "",
        on_dead: Callable[[], None] = lambda: None,
        guarded: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self.settings = settings
        self.served = policy.ack.capabilities
        self.action_names = tuple(action_names)
        self._ladder = FallbackLadder(settings.fallback, action_names)
        self._positions = positions
        self._on_dead = on_dead
        self.round_trips = RoundTrips()
        for seconds in warm_up(policy, task):
            self.round_trips.add(seconds)
        self.plan = plan(settings, self.served, self.round_trips.p95_s)
        limits = FailSafeLimits(settings.degraded_after_s, settings.max_offline_s)
        now_s = time.monotonic()
        self._changed = threading.Condition(threading.Lock())
        self._state = advance(FailSafe(limits, since_s=now_s), Happened.PAUSED, now_s)
        self._queue = ActionQueue()
        self._history: deque[Observation] = deque(maxlen=max(1, self.served.n_obs_steps))
        self._work: Work | None = None
        self._is_in_flight = False
        self._is_over = False
        self._generation = self._episode = 0
        self._last: NDArray[Any] | None = None
        self._executed = Executed(None, 0, 0.0)
        self._counts = {"executed": 0, "fallbacks": 0, "dropped": 0}
        self._past: deque[FailSafe] = deque(maxlen=64)
        self._worker = Worker(self, policy, convert, task)
        self._watch = Watch(self, policy, task=task, robot_type=robot_type, guarded=guarded)

    def start(self) -> None:
        self._worker.start()
        self._watch.start()

    def stop(self) -> None:
        """End both threads and the session; stopping twice is fine."""
        with self._changed:
            self._is_over = True
            self._forget()
            self._changed.notify_all()
        # The report goes over the node that the policy closes.
        self._watch.stop()
        self._worker.stop()

    # The control loop's thread.

    def notify(self, observation: Observation) -> None:
        """Keep what was observed; prepare a request if one is due."""
        now_s = time.monotonic()
        with self._changed:
            if self._is_paused:
                return
            self._history.append(observation)
            if self._is_due():
                self._work = Work(
                    observations=tuple(self._history),
                    observed_at_s=now_s,
                    before=self._queue.snapshot(),
                    episode=self._episode,
                    generation=self._generation,
                )
                self._changed.notify()

    def next_action(self) -> NDArray[Any] | None:
        """What to execute now; None: send nothing."""
        now_s = time.monotonic()
        with self._changed:
            self._feed(Happened.TICK, now_s)
            if self._is_paused or self._is_over:
                return None
            queued = self._queue.next
            age_s = 0.0 if queued is None else now_s - queued.origin.observed_at_s
            if queued is not None and age_s <= self.plan.max_action_age_s and not self.is_dead:
                self._queue.take()
                self._counts["executed"] += 1
                self._executed = Executed(queued.origin, queued.step, age_s)
                self._last = queued.robot
                return queued.robot
            reason = "no action is left"
            if queued is not None:
                reason = f"the next action is {age_s:.2f} s old"
                self._queue.clear()
            return self._fall_back(reason, now_s)

    def reset(self) -> None:
        """A new episode begins: nothing of the last one may influence what comes."""
        with self._changed:
            self._forget()
            self._episode += 1
            self._feed(Happened.RESET, time.monotonic())

    def pause(self) -> None:
        """Somebody else drives; what was planned is forgotten."""
        with self._changed:
            self._forget()
            self._feed(Happened.PAUSED, time.monotonic())

    def resume(self) -> None:
        with self._changed:
            self._forget()
            self._feed(Happened.RESUMED, time.monotonic())

    @property
    def executed(self) -> Executed:
        """Where the newest action came from."""
        return self._executed

    @property
    def is_dead(self) -> bool:
        return self._state.is_dead

    @property
    def is_over(self) -> bool:
        return self._is_over or self._state.is_dead

    # The worker's and the watch's threads.

    def wait_for_work(self, timeout_s: float) -> None:
        """Return when a request is due or the stream is over, at the latest after this time."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or self._work is not None, timeout_s)

    def wait_for_end(self, timeout_s: float) -> None:
        """Return when the stream is over, at the latest after this time."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over, timeout_s)

    def take_work(self) -> Work | None:
        """The newest request that is due; it is then in flight."""
        with self._changed:
            work, self._work = self._work, None
            if work is not None:
                self._is_in_flight = True
                self._feed(Happened.ASKED, time.monotonic())
            return work

    def merge(self, work: Work, chunk: RemoteChunk, session_id: str) -> None:
        """Take in the chunk that answers `work`, unless its episode is over."""
        origin = Origin(
            observed_at_s=work.observed_at_s,
            session_id=session_id,
            seq_id=chunk.seq_id,
            episode_id=work.episode,
            digest=chunk.digest,
            server=chunk.server,
        )
        steps = steps_of(chunk.model, chunk.robot, origin, self.plan.execute_steps)
        now_s = time.monotonic()
        self.round_trips.add(now_s - work.observed_at_s)
        with self._changed:
            self._is_in_flight = False
            if work.generation != self._generation:
                self._counts["dropped"] += 1
                return
            self._queue.merge(steps, work.before, self.plan.merge)
            self._feed(Happened.MERGED, now_s)

    def failed(self, event: FailSafeEvent) -> None:
        """A request ended without a chunk, or there is no session to send one in."""
        with self._changed:
            self._is_in_flight = False
            self._feed(event, time.monotonic())

    def feed(self, event: FailSafeEvent) -> FailSafe:
        with self._changed:
            self._feed(event, time.monotonic())
            return self._state

    @property
    def episode(self) -> int:
        return self._episode

    def news(self) -> list[FailSafe]:
        """The states that were entered since the last call, in their order."""
        with self._changed:
            past = list(self._past)
            self._past.clear()
            return past

    def status(self) -> StreamStatus:
        with self._changed:
            return StreamStatus(
                state=self._state,
                is_paused=self._is_paused,
                episode=self._episode,
                queued=len(self._queue),
                action_age_s=self._executed.age_s,
                last_round_trip_s=self.round_trips.last_s,
                p95_round_trip_s=self.round_trips.p95_s,
                **self._counts,
            )

    # With the lock held.

    @property
    def _is_paused(self) -> bool:
        return self._state.paused_at_s is not None

    def _is_due(self) -> bool:
        """Whether little enough is left that the next chunk must be asked for.

        A chunk that arrives later than its last step could be executed is of no use while the
        robot still moves: then it is asked for when nothing is left.
        """
        if self._is_in_flight or self.is_over:
            return False
        fps, p95_s = self.settings.fps, self.round_trips.p95_s
        is_too_late = self.plan.merge != "append" and p95_s * fps >= self.plan.execute_steps
        if is_too_late:
            return len(self._queue) == 0
        return len(self._queue) / fps <= (self.settings.buffer_time_s or buffer_s(p95_s, fps))

    def _forget(self) -> None:
        self._generation += 1
        self._queue.clear()
        self._history.clear()
        self._work = self._last = None

    def _fall_back(self, reason: str, now_s: float) -> NDArray[Any] | None:
        self._feed(Starved(reason), now_s)
        if self._state.mode is not Mode.CONNECTING:
            self._counts["fallbacks"] += 1
        observed = None
        if self._last is None and self._history and self._positions is not None:
            observed = self._positions(self._history[-1])
        action = self._ladder.action(self._last, observed)
        self._executed = Executed(None, 0, 0.0)
        self._last = action if self._last is None else self._last
        return action

    def _feed(self, event: FailSafeEvent, now_s: float) -> None:
        before, self._state = self._state, advance(self._state, event, now_s)
        if self._state.mode is not before.mode:
            self._past.append(self._state)
            if self._state.is_dead:
                self._on_dead()
                self._changed.notify_all()
