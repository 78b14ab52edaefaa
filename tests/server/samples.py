"""What a robot asks of a server, what the server is, and what became of a request."""

from dataclasses import replace

import msgspec

from lefleet.server.capture import Captured
from lefleet.server.handshake import HandshakeRules, Occupancy, session_limits
from lefleet.server.observers import RequestOutcome
from lefleet.server.session import Session
from lefleet_client import wire
from tests.client.wire import samples

CONTRACT = samples.CONTRACT
CAPABILITIES = msgspec.structs.replace(
    samples.CAPABILITIES, chunk_size=100, n_action_steps=100, n_obs_steps=1, rtc_horizon=0
)
RULES = HandshakeRules(
    capabilities=CAPABILITIES,
    service="fold",
    fps=30.0,
    strict_fps=False,
    default_task="fold the shirt",
    pin_task=False,
    mode_reason="",
    max_sessions=2,
)
QUIET = Occupancy(active=0, holder="", load=0.25, is_draining=False)


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


LIMITS = session_limits(session_open(), CAPABILITIES)


def session(name: str, **values) -> Session:
    """What a robot of this name has open."""
    return Session(
        id=name,
        opened=session_open(client_id=name),
        limits=LIMITS,
        schema_version=1,
        new_pipeline=None,
        publisher=None,
        **values,
    )


ANSWERED = RequestOutcome(
    session_id="s1",
    client_id="arm 1",
    session_epoch=2,
    episode_id=3,
    seq_id=4,
    seed=5,
    result="answered",
    reason="",
    queue_wait_ms=20.0,
    prepare_ms=3.0,
    inference_ms=40.0,
    batch_size=1,
    superseded=2,
)


def outcome(**changes: object) -> RequestOutcome:
    return replace(ANSWERED, **changes)


def status(**changes: object) -> wire.ServerStatus:
    return msgspec.structs.replace(samples.status(), **changes)


CAPTURED = Captured(
    client_id="arm 1",
    session_id="s1",
    robot_type="so101",
    default_task="fold",
    digest="d",
    seed=2**64 - 1,
    header=b"\x00\x01",
    observation=b"\xff\x00seen",
    chunk=b"\xfedone",
)
