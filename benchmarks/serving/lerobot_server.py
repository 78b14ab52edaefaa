"""LeRobot's own policy server, with a policy that computes nothing.

Its gRPC service, queue, pickled messages and logging are the real ones. Left out is what it does
around a policy (`_predict_action_chunk`: image conversion, processors) and loading one from a
checkpoint. Its server also waits until 33 ms are over; here it does not.
"""

import pickle
import time
from concurrent import futures
from typing import Any

import grpc
import torch
from lerobot.async_inference.configs import PolicyServerConfig
from lerobot.async_inference.helpers import RemotePolicyConfig, TimedAction, TimedObservation
from lerobot.async_inference.policy_server import PolicyServer
from lerobot.transport import services_pb2, services_pb2_grpc

from benchmarks.serving.ready import options, say_ready
from benchmarks.serving.scene import CAMERAS, JOINTS, StubPolicy


class TransportOnly(PolicyServer):
    """As a fresh server has no policy before a client sent its instructions, so has this one."""

    stub: StubPolicy

    def SendPolicyInstructions(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        wanted = pickle.loads(request.data)  # noqa: S301
        assert isinstance(wanted, RemotePolicyConfig)
        self.policy = wanted
        return services_pb2.Empty()

    def _predict_action_chunk(self, observation_t: TimedObservation) -> list[TimedAction]:
        if self.policy is None:
            raise RuntimeError("no client sent policy instructions")
        seen = observation_t.get_observation()
        chunk = self.stub.predict([seen[joint] for joint in JOINTS], seen[CAMERAS[0]])
        return self._time_action_chunk(
            observation_t.get_timestamp(),
            list(torch.from_numpy(chunk)),
            observation_t.get_timestep(),
        )


def main() -> None:
    given = options()
    service = TransportOnly(PolicyServerConfig(given.host, given.port, inference_latency=0.0))
    service.stub = given.policy
    # As `lerobot.async_inference.policy_server.serve` does it.
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    services_pb2_grpc.add_AsyncInferenceServicer_to_server(service, server)
    server.add_insecure_port(f"{given.host}:{given.port}")
    server.start()
    say_ready()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
