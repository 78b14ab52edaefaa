"""How LeRobot's `RobotClient` asks its server: the same calls and messages, without a robot.

One thread sends observations; another asks for actions all the time, so that its call already
waits at the server when an observation arrives.
"""

import pickle
import queue
import threading
import time
from typing import Any

import grpc
import numpy as np
from lerobot.async_inference.helpers import RemotePolicyConfig, TimedObservation
from lerobot.transport import services_pb2, services_pb2_grpc
from lerobot.transport.utils import grpc_channel_options, send_bytes_in_chunks

from benchmarks.serving.scene import FPS, JOINTS, STEPS, TASK, Answer, Scene

_PATIENCE_S = 2.0


class LerobotClient:
    """Threads: the caller's sends, `actions` receives and hands chunks over in a queue."""

    def __init__(self, address: str) -> None:
        options = grpc_channel_options(initial_backoff=f"{1 / FPS:.4f}s")
        self._channel = grpc.insecure_channel(address, options)
        self._stub = services_pb2_grpc.AsyncInferenceStub(self._channel)
        self._stub.Ready(services_pb2.Empty())
        wanted = RemotePolicyConfig("act", "nothing", {}, STEPS)
        self._stub.SendPolicyInstructions(services_pb2.PolicySetup(data=pickle.dumps(wanted)))
        self._chunks: queue.Queue[Any] = queue.Queue()
        self._is_open = True
        self._timestep = 0
        threading.Thread(target=self._receive, name="actions", daemon=True).start()

    def infer(self, scene: Scene) -> Answer:
        self._timestep += 1
        seen: dict[str, Any] = dict(zip(JOINTS, map(float, scene.state), strict=True))
        seen |= {**scene.images, "task": TASK}
        observation = TimedObservation(
            timestamp=time.time(), timestep=self._timestep, observation=seen, must_go=True
        )
        self._stub.SendObservations(
            send_bytes_in_chunks(pickle.dumps(observation), services_pb2.Observation)
        )
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            actions = self._chunks.get(timeout=max(0.0, deadline - time.monotonic()))
            if isinstance(actions, grpc.RpcError):
                raise actions
            if actions[0].get_timestep() == self._timestep:
                chunk = np.stack([action.get_action().numpy() for action in actions])
                return Answer(chunk, chunk)

    def close(self) -> None:
        self._is_open = False
        self._channel.close()

    def _receive(self) -> None:
        while self._is_open:
            try:
                reply = self._stub.GetActions(services_pb2.Empty())
                if reply.data:
                    self._chunks.put(pickle.loads(reply.data))  # noqa: S301
            except grpc.RpcError as error:
                self._chunks.put(error)
            except ValueError:
                return
