"""What a control loop calls: observations in, actions out, at once."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from lefleet_client.remote import RemoteChunk, RemotePolicy
from lefleet_client.stream.failsafe import (
    Absent,
    FailSafe,
    FailSafeEvent,
    FailSafeLimits,
    Happened,
    Mode,
    Starved,
    advance,
)
from lefleet_client.stream.fallback import FallbackLadder, Positions
from lefleet_client.stream.queue import ActionQueue, Origin, QueuedAction, steps_of
from lefleet_client.stream.records import Executed, Seen, StreamStatus, Work
from lefleet_client.stream.settings import StreamSettings, plan
from lefleet_client.stream.timing import RoundTrips
from lefleet_client.stream.watch import EdgeWatch
from lefleet_client.stream.worker import EdgeWorker, warm_up

_LOG = logging.getLogger(__name__)
_ABSENT_S = 5.0
_ABSENT_TICKS = 5
"""A control loop that does not call for so long does something else: no time counts as offline."""


class ActionStream:
    """Executes chunks of a remote policy at the control rate, and survives its network.

        stream = ActionStream(policy, StreamSettings(fps=30), action_names=names)
        stream.start()
        stream.resume()
        while not stream.is_dead:
            stream.notify(robot.observe())
            if (action := stream.next_action()) is not None:
                robot.execute(action)

    It begins paused. `on_dead` is called once, by the thread that noticed; it must return at once.

    Threads: one control loop calls `notify`, `next_action`, `reset`, `pause` and `resume`. The
    worker sends observations and merges chunks. The watch lets time pass when the loop does not,
    logs what happened and publishes the robot's state. One lock guards all that they share; it is
    held for microseconds, never while something is sent, encoded, logged or awaited, nor while
    `positions`, `convert` or `on_dead` run.

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
        convert: Callable[[Seen], dict[str, NDArray[Any]]] = dict,
        positions: Positions | None = None,
        task: str = "",
        robot_type: str = "",
        on_dead: Callable[[], None] = lambda: None,
        guarded: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self.settings = settings
        self.served = policy.ack.capabilities
        self.action_names = tuple(action_names)
        self._ladder = FallbackLadder(settings.fallback, action_names, positions)
        self._on_dead = on_dead
        self.round_trips = RoundTrips()
        for seconds in warm_up(policy, task, settings.request_timeout_s):
            self.round_trips.add(seconds)
        self.plan = plan(settings, self.served, self.round_trips.p95_s)
        limits = FailSafeLimits(settings.degraded_after_s, settings.max_offline_s)
        now_s = time.monotonic()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._state = advance(FailSafe(limits, since_s=now_s), Happened.PAUSED, now_s)
        self._wake_at_s = self._state.wake_at_s
        self._queue = ActionQueue()
        self._ask_at = self.plan.ask_at(settings, self.round_trips.p95_s)
        self._history: deque[Seen] = deque(maxlen=self.served.n_obs_steps)
        self._work: Work | None = None
        self._is_in_flight = self._is_over = self._is_death_untold = False
        self._generation = 0
        self._episode = policy.episode_id
        self._called_at_s = now_s
        self._absent_s = max(_ABSENT_S, _ABSENT_TICKS / settings.fps)
        self._last: NDArray[Any] | None = None
        self._held: NDArray[Any] | None = None
        self._newest: QueuedAction | None = None
        self._age_s = 0.0
        self._taken = self._fallbacks = self._dropped = 0
        self._past: deque[FailSafe] = deque(maxlen=64)
        self._worker = EdgeWorker(self, policy, convert, task)
        self._watch = EdgeWatch(self, policy, task=task, robot_type=robot_type, guarded=guarded)

    def start(self) -> None:
        self._worker.start()
        self._watch.start()

    def stop(self) -> None:
        """End both threads and the session, within seconds; stopping twice is fine."""
        with self._lock:
            self._is_over = True
            self._forget()
            self._changed.notify_all()
        # The report goes over the node that the policy closes.
        self._watch.stop()
        self._worker.stop()

    # The control loop's thread.

    def notify(self, observation: Seen) -> None:
        """Keep what was observed, which must not be changed later; prepare a request if one is due.

        Call it before `next_action` of the same tick.
        """
        now_s = time.monotonic()
        with self._lock:
            if self._state.paused_at_s is not None:
                return
            self._be_here(now_s)
            self._history.append(observation)
            if len(self._queue) <= self._ask_at and not self._is_in_flight and not self.is_over:
                self._work = Work(
                    observations=tuple(self._history),
                    observed_at_s=now_s,
                    before=self._queue.snapshot(),
                    episode=self._episode,
                    generation=self._generation,
                )
                self._changed.notify()

    def next_action(self) -> NDArray[Any] | None:
        """What to execute now, as an array of the caller's own; None: send nothing."""
        now_s = time.monotonic()
        with self._lock:
            if self._state.paused_at_s is not None:
                return None
            self._be_here(now_s)
            if now_s >= self._wake_at_s:
                self._feed(Happened.TICK, now_s)
            queued = self._fresh(now_s)
            if queued is not None:
                self._queue.take()
                self._taken += 1
                self._newest, self._age_s = queued, now_s - queued.origin.observed_at_s
                self._last, self._held = queued.robot, None
                return queued.robot.copy()
            self._newest, self._age_s = None, 0.0
            self._fallbacks += self._state.mode is not Mode.CONNECTING
            seen = self._history[-1] if self._history else None
        self._tell_death()
        return self._fall_back(seen)

    def reset(self) -> None:
        """A new episode begins: nothing of the last one may influence what comes."""
        with self._lock:
            self._forget()
            self._episode = (self._episode + 1) % 2**32
            self._feed(Happened.RESET, time.monotonic())

    def pause(self) -> None:
        """Somebody else drives; what was planned is forgotten."""
        with self._lock:
            self._forget()
            self._feed(Happened.PAUSED, time.monotonic())

    def resume(self) -> None:
        with self._lock:
            now_s = time.monotonic()
            self._forget()
            # A strategy that rests between episodes without a pause was away until now.
            self._be_here(now_s)
            self._feed(Happened.RESUMED, now_s)

    @property
    def executed(self) -> Executed:
        """Where the newest action came from."""
        newest = self._newest
        if newest is None:
            return Executed(None, 0, 0.0)
        return Executed(newest.origin, newest.step, self._age_s)

    @property
    def is_dead(self) -> bool:
        return self._state.is_dead

    @property
    def is_over(self) -> bool:
        return self._is_over or self._state.mode is Mode.DEAD

    # The worker's and the watch's threads.

    def wait_for_work(self, timeout_s: float) -> None:
        """Return when a request is due or the stream is over, at the latest after this time."""
        with self._lock:
            self._changed.wait_for(lambda: self.is_over or self._work is not None, timeout_s)

    def wait_for_end(self, timeout_s: float) -> None:
        """Return when the stream is over, at the latest after this time."""
        with self._lock:
            self._changed.wait_for(lambda: self.is_over, timeout_s)

    def take_work(self, episode: int) -> Work | None:
        """The newest request that is due, if it is of this episode; it is then in flight."""
        with self._lock:
            work = self._work
            if work is None or work.episode != episode:
                return None
            self._work = None
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
        ask_at = self.plan.ask_at(self.settings, self.round_trips.p95_s)
        with self._lock:
            self._is_in_flight = False
            self._ask_at = ask_at
            if work.generation != self._generation:
                self._dropped += 1
                return
            self._queue.merge(steps, work.before, self.plan.merge)
            self._feed(Happened.MERGED, now_s)

    def failed(self, event: FailSafeEvent) -> FailSafe:
        """A request ended without a chunk, or there is no session to send one in."""
        with self._lock:
            self._is_in_flight = False
        return self.feed(event)

    def feed(self, event: FailSafeEvent) -> FailSafe:
        with self._lock:
            self._feed(event, time.monotonic())
            state = self._state
        self._tell_death()
        return state

    def tick(self) -> list[FailSafe]:
        """Let time pass for a control loop that is late; the states entered since the last call."""
        now_s = time.monotonic()
        with self._lock:
            if now_s - self._called_at_s <= self._absent_s:
                self._feed(Happened.TICK, now_s)
            past = list(self._past)
            self._past.clear()
        self._tell_death()
        return past

    @property
    def episode(self) -> int:
        return self._episode

    def status(self) -> StreamStatus:
        with self._lock:
            return StreamStatus(
                state=self._state,
                is_paused=self._state.paused_at_s is not None,
                episode=self._episode,
                queued=len(self._queue),
                executed=self._taken,
                fallbacks=self._fallbacks,
                dropped=self._dropped,
                action_age_s=self._age_s,
                last_round_trip_s=self.round_trips.last_s,
                p95_round_trip_s=self.round_trips.p95_s,
            )

    # With the lock held.

    def _be_here(self, now_s: float) -> None:
        if now_s - self._called_at_s > self._absent_s:
            self._feed(Absent(self._called_at_s), now_s)
        self._called_at_s = now_s

    def _fresh(self, now_s: float) -> QueuedAction | None:
        """The next action that may be executed; those before it that are too old are left out."""
        reason = "no action is left"
        oldest_s = now_s - self.plan.max_action_age_s
        while (queued := self._queue.next) is not None and not self.is_over:
            if queued.origin.observed_at_s >= oldest_s:
                return queued
            reason = f"the next action is {now_s - queued.origin.observed_at_s:.2f} s old"
            self._queue.drop()
        self._feed(Starved(reason), now_s)
        return None

    def _forget(self) -> None:
        self._generation += 1
        self._queue.clear()
        self._history.clear()
        self._work = self._held = None
        if not self._is_over:
            self._last = None

    def _feed(self, event: FailSafeEvent, now_s: float) -> None:
        before, self._state = self._state, advance(self._state, event, now_s)
        if self._state is before:
            return
        self._wake_at_s = self._state.wake_at_s
        if self._state.mode is not before.mode:
            self._past.append(self._state)
            if self._state.is_dead:
                self._is_death_untold = True
                self._changed.notify_all()

    # Without the lock.

    def _fall_back(self, seen: Seen) -> NDArray[Any] | None:
        held = self._held
        if held is None:
            self._held = held = self._ladder.action(self._last, seen)
        return None if held is None else held.copy()

    def _tell_death(self) -> None:
        if not self._is_death_untold:
            return
        with self._lock:
            is_mine, self._is_death_untold = self._is_death_untold, False
        if is_mine:
            try:
                self._on_dead()
            except Exception:  # noqa: BLE001 - the control loop may be what noticed
                _LOG.exception("on_dead failed")
