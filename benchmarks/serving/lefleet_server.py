"""Our server, with a policy that computes nothing.

Sessions, queue, prepare and inference threads, audit log and metrics are those of
`lefleet serve`; only the checkpoint and its processors are replaced.
"""

import signal
from pathlib import Path
from typing import Any

from benchmarks.serving.ready import options, say_ready
from benchmarks.serving.scene import (
    CAMERAS,
    FPS,
    HEIGHT,
    IMAGE_KEY,
    JOINTS,
    STATE_KEY,
    STEPS,
    TASK,
    WIDTH,
    StubPolicy,
)
from lefleet.policy.request import Chunk, PolicyRequest
from lefleet.policy.settings import ModelSettings
from lefleet.server.manifest import Manifest
from lefleet.server.monitoring import Metrics
from lefleet.server.observers import open_audit
from lefleet.server.service import PolicyService
from lefleet_client.transport import ZenohSettings, ZenohTransport
from lefleet_client.wire import Capabilities, Contract

CONTRACT = Contract(
    action_names=JOINTS,
    vectors={STATE_KEY: JOINTS},
    cameras={IMAGE_KEY.format(camera): (HEIGHT, WIDTH, 3) for camera in CAMERAS},
    fps=FPS,
    policy_type="stub",
    robot_type="stub",
)


class StubPipeline:
    """Processors that change nothing."""

    def prepare(self, request: PolicyRequest) -> PolicyRequest:
        return request

    def finish(self, actions: Any) -> Chunk:
        return Chunk(model=actions, robot=actions)

    def reset(self) -> None:
        """Nothing is remembered."""


class StubServed:
    """What a server needs of a `ServedPolicy`."""

    capabilities = Capabilities(
        model="stub",
        revision="main",
        digest="0" * 64,
        contract=CONTRACT,
        chunk_size=STEPS,
        n_action_steps=STEPS,
        n_obs_steps=1,
        supports_rtc=False,
        rtc_horizon=0,
        serving_mode="shared",
    )
    digest = capabilities.digest
    contract = CONTRACT
    is_exclusive = False
    mode_reason = ""
    warnings = ()

    def __init__(self, policy: StubPolicy) -> None:
        self._policy = policy

    def new_pipeline(self) -> StubPipeline:
        return StubPipeline()

    def predict(self, prepared: PolicyRequest) -> Any:
        frame = prepared.frames[-1]
        return self._policy.predict(frame[STATE_KEY], frame[IMAGE_KEY.format(CAMERAS[0])])

    def reset(self) -> None:
        """Nothing is remembered."""


def main() -> None:
    given = options()
    manifest = Manifest(
        model=ModelSettings(repo_or_path="stub"),
        default_task=TASK,
        model_name="stub",
        service_name="stub",
        server_name="stub",
        max_sessions=128,
        # It listens in a network namespace of its own.
        zenoh=ZenohSettings(mode="peer", listen=(f"tcp/{given.host}:{given.port}",), insecure=True),
    )
    audit = open_audit(str(Path("audit.jsonl").absolute()))
    assert audit is not None
    policy: Any = StubServed(given.policy)
    with (
        ZenohTransport.open(manifest.zenoh) as transport,
        PolicyService(policy, manifest, transport, observers=(audit, Metrics())),
    ):
        say_ready()
        signal.pause()


if __name__ == "__main__":
    main()
