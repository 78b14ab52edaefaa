"""What a robot asks of a server, and what the server is."""

import msgspec

from lefleet.server.handshake import Situation, Terms
from lefleet_client import wire

CONTRACT = wire.Contract(
    action_names=("shoulder.pos", "gripper.pos"),
    vectors={"observation.state": ("shoulder.pos", "gripper.pos", "wrist.pos")},
    cameras={"observation.images.top": (480, 640, 3)},
    fps=30.0,
    policy_type="act",
    robot_type="so101",
)
TERMS = Terms(
    capabilities=wire.Capabilities(
        model="lerobot/act",
        revision="main",
        digest="d1",
        contract=CONTRACT,
        chunk_size=50,
        n_action_steps=25,
        n_obs_steps=1,
        supports_rtc=False,
        rtc_horizon=0,
        serving_mode="shared",
    ),
    service="fold",
    fps=30.0,
    strict_fps=False,
    default_task="fold the shirt",
    pin_task=False,
    mode_reason="",
    max_sessions=2,
)
QUIET = Situation(active=0, holder="", load=0.25, is_draining=False)


def session_open(**changes) -> wire.SessionOpen:
    """A robot that fits."""
    fitting = wire.SessionOpen(
        model="lerobot/act",
        revision="main",
        service="fold",
        client_id="arm 1",
        session_epoch=4,
        action_names=CONTRACT.action_names,
        vectors=CONTRACT.vectors,
        cameras=CONTRACT.cameras,
        fps=30.0,
        robot_type="so101",
    )
    return msgspec.structs.replace(fitting, **changes)
