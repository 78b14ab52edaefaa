"""LeRobot's RTC engine and ours, tick by tick on one clock, with the same answers after the same
number of ticks."""

import queue
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch
from lerobot.policies.rtc import RTCConfig
from lerobot.rollout.inference import rtc as lerobot_rtc
from lerobot.rollout.inference.rtc import RTCInferenceEngine

from lefleet_client.remote import RemotePolicy
from lefleet_client.stream import ActionStream, StreamSettings
from lefleet_client.stream import stream as our_stream
from tests.client.transport.waiting import eventually
from tests.policy import tiny
from tests.policy.asking import TASK, Local

FPS = 16.0
"""A tick is exact in binary, so that latencies are whole ticks without rounding."""
DEADLINE_S = 20


class TickClock:
    """Time that passes only between ticks."""

    def __init__(self) -> None:
        self.tick = 0

    def __call__(self) -> float:
        return 1000.0 + self.tick / FPS


class Gate:
    """Holds each answer back until the test lets it go."""

    def __init__(self) -> None:
        self._go: queue.Queue[None] = queue.Queue()
        self.asked = self.answered = 0

    def pass_through(self) -> None:
        self.asked += 1
        self._go.get(timeout=DEADLINE_S)

    def let_go(self) -> None:
        self._go.put(None)

    @property
    def is_waiting(self) -> bool:
        return self.asked > self.answered


@dataclass
class Asked:
    """What a policy was asked with: the delay, and how many rows of the last chunk."""

    delay: int
    rows: int | None


class LeRobots:
    """LeRobot's RTC engine; its thread runs only while the test lets it.

    Left alone it asks at any moment of a tick, also between an action and the next observation,
    with an observation that is then one action older than its place in the queue.
    """

    def __init__(self, folder, clock: TickClock, threshold: int, monkeypatch) -> None:
        self.gate = Gate()
        self.asked: list[Asked] = []
        self._idle, self._run = threading.Semaphore(0), threading.Semaphore(0)
        fake = SimpleNamespace(perf_counter=clock, sleep=self._sleep)
        monkeypatch.setattr(lerobot_rtc, "time", fake)
        local = Local(folder).with_rtc()
        predict = local.policy.predict_action_chunk

        def gated(batch, inference_delay, prev_chunk_left_over):
            torch.manual_seed(self.gate.asked)
            rows = None if prev_chunk_left_over is None else len(prev_chunk_left_over)
            self.asked.append(Asked(inference_delay, rows))
            actions = predict(
                batch, inference_delay=inference_delay, prev_chunk_left_over=prev_chunk_left_over
            )
            self.gate.pass_through()
            return actions

        local.policy.predict_action_chunk = gated
        names = list(tiny.JOINTS)
        self.engine = RTCInferenceEngine(
            local.policy,
            local.before,
            local.after,
            SimpleNamespace(robot_type="arm", action_features=dict.fromkeys(names, float)),
            RTCConfig(),
            {tiny.STATE: {"dtype": "float32", "shape": (len(names),), "names": names}},
            TASK,
            FPS,
            "cpu",
            rtc_queue_threshold=threshold,
        )
        self.engine.reset()
        self.engine.start()
        self._wait()
        self.engine.resume()

    def _sleep(self, _: float) -> None:
        self._idle.release()
        self._run.acquire(timeout=DEADLINE_S)

    def settle(self) -> None:
        """Let the thread look once: it then waits for an answer, or has no work."""
        if not self.gate.is_waiting:
            self._run.release()
            self._wait()

    def _wait(self) -> None:
        eventually(lambda: self.gate.is_waiting or self._idle.acquire(blocking=False))

    def answer(self) -> None:
        count = len(self.asked)
        self.gate.let_go()
        self.gate.answered = count
        self._wait()

    @property
    def queue(self) -> np.ndarray:
        left = self.engine.action_queue.get_processed_left_over()
        return np.zeros((0, 3), np.float32) if left is None else left.numpy()

    def notify(self, state: np.ndarray) -> None:
        values = dict(zip(tiny.JOINTS, state.tolist(), strict=True))
        self.engine.notify_observation(values)

    def next_action(self):
        action = self.engine.get_action(None)
        return None if action is None else action.numpy()

    def stop(self) -> None:
        self.engine._shutdown_event.set()
        for _ in range(3):
            self.gate.let_go()
            self._run.release()
        self.engine.stop()


class GatedPolicy(RemotePolicy):
    """A real remote policy whose answers arrive when the test says so."""

    gate: Gate | None = None

    def infer(self, observation, **rest):
        if self.gate is None:
            return super().infer(observation, **rest)
        prefix = rest["prefix_model"]
        rows = None if prefix is None else len(prefix)
        self.asked.append(Asked(rest["inference_delay_steps"], rows))
        chunk = super().infer(observation, noise_seed=self.gate.asked, **rest)
        self.gate.pass_through()
        return chunk


class Largest:
    """LeRobot's estimate of the latency: the largest ever seen."""

    last_s = p95_s = 0.0

    def add(self, seconds: float) -> None:
        self.last_s, self.p95_s = seconds, max(self.p95_s, seconds)


class Ours:
    """Our stream on a real server; `estimate` replaces its round trips."""

    def __init__(self, policy: GatedPolicy, clock: TickClock, threshold: int, monkeypatch) -> None:
        monkeypatch.setattr(our_stream, "time", SimpleNamespace(monotonic=clock))
        settings = StreamSettings(FPS, buffer_time_s=threshold / FPS, max_action_age_s=1000.0)
        self.stream = ActionStream(policy, settings, action_names=tiny.JOINTS, task=TASK)
        self.gate = policy.gate = Gate()
        self.asked = policy.asked = []
        self.stream.reset()
        self.stream.start()
        self.stream.resume()

    def settle(self) -> None:
        """Return when the worker has taken a request that was due."""
        eventually(lambda: self.stream._work is None or self.gate.is_waiting)
        eventually(lambda: not self.stream._is_in_flight or self.gate.is_waiting)

    def answer(self) -> None:
        count = len(self.asked)
        self.gate.let_go()
        eventually(lambda: not self.stream._is_in_flight)
        self.gate.answered = count

    @property
    def queue(self) -> np.ndarray:
        left = self.stream._queue.snapshot().left_robot
        return np.zeros((0, 3), np.float32) if left is None else left

    def notify(self, state: np.ndarray) -> None:
        self.stream.notify({tiny.STATE: state})

    def next_action(self):
        return self.stream.next_action()

    def stop(self) -> None:
        for _ in range(3):
            self.gate.let_go()
        self.stream.stop()
