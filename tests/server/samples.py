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
    digest="d1",
)
TERMS = Terms(
    model="lerobot/act",
    revision="main",
    service="fold",
    contract=CONTRACT,
    fps=30.0,
    strict_fps=False,
    default_task="fold the shirt",
    pin_task=False,
    supports_rtc=False,
    mode="shared",
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
