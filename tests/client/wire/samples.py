"""One small message of each kind, with every field set."""

import numpy as np

from lefleet_client import wire

STATE = np.array([0.5, -1.0, 2.0], dtype="<f4")
ACTIONS = np.array([[0.0, 1.0], [2.0, -3.0]], dtype="<f4")
# Pure red, green and blue in a row.
RGB = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], dtype=np.uint8)

CONTRACT = wire.Contract(
    action_names=("shoulder.pos", "gripper.pos"),
    vectors={"observation.state": ("shoulder.pos", "gripper.pos", "wrist.pos")},
    cameras={"observation.images.top": (480, 640, 3)},
    fps=30.0,
    policy_type="act",
    robot_type="so101",
)
CAPABILITIES = wire.Capabilities(
    model="lerobot/act",
    revision="main",
    digest="d1",
    contract=CONTRACT,
    chunk_size=50,
    n_action_steps=25,
    n_obs_steps=2,
    supports_rtc=False,
    rtc_horizon=10,
    serving_mode="shared",
    envelope_ms=120.0,
)


def observation() -> wire.Observation:
    return wire.Observation(
        vectors={"observation.state": wire.encode_tensor(STATE)},
        images={"observation.images.top": wire.encode_image(RGB, quality=0)},
        task="fold the shirt",
        inference_delay_steps=3,
        prefix_model=wire.encode_tensor(ACTIONS),
        prefix_robot=wire.encode_tensor(ACTIONS * 2),
        noise_seed=2**64 - 1,
        history=(wire.Frame(vectors={"observation.state": wire.encode_tensor(STATE)}),),
        probe=True,
    )


def chunk() -> wire.ActionChunk:
    return wire.ActionChunk(
        chunk_model=wire.encode_tensor(ACTIONS),
        chunk_robot=wire.encode_tensor(ACTIONS * 2),
        seq_id=7,
        episode_id=2,
        client_mono_ns=123456789,
        digest="d1",
        queue_wait_ms=1.5,
        prepare_ms=4.5,
        inference_ms=20.25,
        batch_size=2,
        superseded=1,
        load=0.5,
    )


def session_open() -> wire.SessionOpen:
    return wire.SessionOpen(
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
        task="fold the shirt",
        wants_rtc=True,
        pin_digest="d1",
        image_codec="jpeg",
        tags={"site": "lab"},
        episode_id=3,
        seq_id=2**63,
    )


def session_ack() -> wire.SessionAck:
    return wire.SessionAck(
        session_id="x1",
        session_epoch=4,
        schema_version=1,
        instance_id="i1",
        capabilities=CAPABILITIES,
        image_codec="jpeg",
        load=0.25,
        warnings=("fps differs",),
        insecure=True,
    )


def status() -> wire.ServerStatus:
    return wire.ServerStatus(
        service="fold",
        server="gpu-1",
        instance_id="i1",
        capabilities=CAPABILITIES,
        draining=False,
        sessions=1,
        max_sessions=8,
        load=0.25,
        clients=(
            wire.SessionStatus(
                client_id="arm 1",
                session_id="x1",
                robot_type="so101",
                image_codec="raw",
                age_s=60.0,
                idle_s=0.5,
                episode_id=2,
                answered=100,
                failed=1,
                superseded=3,
                queue_wait_ms=1.5,
                inference_ms=20.25,
                warnings=("top: 96 x 96, the policy was trained with 288 x 288",),
            ),
        ),
        insecure=True,
    )


def robot_status() -> wire.RobotStatus:
    return wire.RobotStatus(
        client_id="arm 1",
        state="degraded",
        state_s=2.5,
        reason="no chunk for 1.2 s",
        age_s=0.5,
        paused=True,
        robot_type="so101",
        task="fold the shirt",
        service="fold",
        server="gpu-1",
        digest="d1",
        episode_id=2,
        action_age_ms=180.0,
        buffer_ms=400.0,
        fallbacks=3,
        reconnects=1,
        round_trip_ms=35.5,
        round_trip_p95_ms=80.25,
        image_codec="jpeg",
        executed=1000,
        clamped=4,
        refused=1,
        warnings=("the latency is outside the envelope",),
    )


MESSAGES = {
    "observation": (wire.OBSERVATION, observation()),
    "chunk": (wire.CHUNK, chunk()),
    "draining": (wire.EVENT, wire.Draining()),
    "request_failed": (wire.EVENT, wire.RequestFailed(seq_id=7, reason="NaN in state")),
    "probed": (wire.EVENT, wire.Probed(seq_id=7, decode_ms=1.25)),
    "session_closed": (wire.EVENT, wire.SessionClosed(reason="idle")),
    "session_open": (wire.SESSION_REQUEST, session_open()),
    "session_close": (
        wire.SESSION_REQUEST,
        wire.SessionClose(client_id="arm 1", session_id="x1"),
    ),
    "session_ack": (wire.SESSION_REPLY, session_ack()),
    "session_rejected": (
        wire.SESSION_REPLY,
        wire.SessionRejected(check="capacity", reason="8 of 8 sessions", load=1.0),
    ),
    "session_close_ack": (wire.SESSION_REPLY, wire.SessionCloseAck(session_id="x1")),
    "reset": (wire.RESET, wire.Reset(session_id="x1", session_epoch=4, episode_id=3)),
    "reset_ack": (wire.RESET_REPLY, wire.ResetAck(session_id="x1", episode_id=3)),
    "status_request": (wire.STATUS_REQUEST, wire.StatusRequest(with_clients=True)),
    "status": (wire.STATUS, status()),
    "robot_status": (wire.ROBOT_STATUS, robot_status()),
}
HEADER = wire.Header(
    wire.MessageType.CHUNK,
    seq_id=0x0102030405060708,
    episode_id=0x11121314,
    client_mono_ns=-2,
    session_epoch=0x21222324,
)
SESSION_LIMITS = wire.observation_limits(
    vectors={"observation.state": 3},
    cameras={"observation.images.top": 640 * 480},
    n_obs_steps=2,
    chunk_size=50,
    columns=2,
)
