"""The flags `--inference.*` of a robot whose policy is on a server, registered with LeRobot."""

from dataclasses import dataclass, field
from typing import Literal

from lerobot.rollout.inference.factory import InferenceEngineConfig

from lefleet_client.stream import Fallback, StreamSettings


@InferenceEngineConfig.register_subclass("remote")
@dataclass
class RemoteInferenceConfig(InferenceEngineConfig):
    """Actions from a policy server, at the control rate, through network faults."""

    connect: str = "tcp/127.0.0.1:7447"
    """A router or a server; several, separated by commas, to reach replicas without a router."""
    service: str = ""
    """Empty: the only one that is there."""
    model: str = ""
    revision: str = ""
    pin_digest: str = ""
    """Only this checkpoint. Empty: the one that the first session has, until the program ends."""
    client_id: str = ""
    """The robot's name, the same at every start. Empty: the certificate's, or made from machine
    and process."""
    tls: str = ""
    """A folder that lefleet certs made, for tls/ endpoints."""
    insecure: bool = False
    """Accept endpoints beyond this machine without TLS: others there can read and forge actions."""
    image_codec: Literal["auto", "jpeg", "raw"] = "auto"
    jpeg_quality: int = 90
    resize: bool = False
    """Make images as small as the policy's before they are sent."""
    mode: Literal["stream", "lockstep"] = "stream"
    """stream: ask while actions are executed. lockstep: ask, wait, execute; for simulations."""
    rtc: bool = True
    """Use real-time chunking where the server supports it."""
    execute_steps: int | None = None
    """Steps of a chunk that may be executed. Default: the policy's n_action_steps, with RTC all."""
    merge: Literal["auto", "rtc", "aligned", "append"] = "auto"
    """How a new chunk meets what is left of the last. auto: rtc if possible, else aligned."""
    buffer_time_s: float | None = None
    """Playback left when the next chunk is asked for. Default: from measured round trips."""
    max_action_age_s: float | None = None
    """No action is executed whose observation is older. Default: 3 s, or what the chunk needs."""
    fallback: Fallback = "safe"
    """Without a fresh action. safe: keep positions, stop velocities. hold: send nothing.
    repeat_last, zero."""
    degraded_after_s: float = 1.0
    request_timeout_s: float = 5.0
    handshake_timeout_s: float = 2.0
    max_offline_s: float = 60.0
    """Without a chunk for so long, the robot gives up: the rollout ends in its initial pose."""
    tags: dict[str, str] = field(default_factory=dict)
    """Shown by the server's audit log."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.connect.split(",") if part.strip())

    def stream_settings(self, fps: float) -> StreamSettings:
        return StreamSettings(
            fps=fps,
            execute_steps=self.execute_steps,
            merge="aligned" if self.merge == "auto" and not self.rtc else self.merge,
            buffer_time_s=self.buffer_time_s,
            max_action_age_s=self.max_action_age_s,
            fallback=self.fallback,
            degraded_after_s=self.degraded_after_s,
            request_timeout_s=self.request_timeout_s,
            handshake_timeout_s=self.handshake_timeout_s,
            max_offline_s=self.max_offline_s,
        )
