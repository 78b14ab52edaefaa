"""A session and its server: status and capabilities, opening, resetting, closing."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from lefleet_client.wire.bodies import Body, Message
from lefleet_client.wire.limits import (
    ANSWER,
    MAX_CLIENTS,
    MAX_FEATURES,
    MAX_HISTORY,
    OLDEST_VERSION,
    QUESTION,
    SCHEMA_VERSION,
    SESSION_ANSWER,
    SESSION_QUESTION,
    STATUS_ANSWER,
    U32,
    U64,
    Count,
    Duration,
    Label,
    Load,
    Name,
    Names,
    Remarks,
    TaskText,
    Text,
)
from lefleet_client.wire.replies import SessionClosed

CodecChoice = Literal["auto", "jpeg", "raw"]
"""auto: the robot probes both, and takes the faster one."""
Side = Annotated[int, Meta(ge=1, le=8192)]
Steps = Annotated[int, Meta(ge=0, le=2**16 - 1)]
Fps = Annotated[float, Meta(gt=0, le=10_000)]
VectorNames = Annotated[dict[Name, Names], Meta(max_length=MAX_FEATURES)]
CameraShapes = Annotated[dict[Name, tuple[Side, Side, Side]], Meta(max_length=MAX_FEATURES)]
Warnings = Annotated[tuple[Text, ...], Meta(max_length=256)]
Tags = Annotated[dict[Name, Label], Meta(max_length=MAX_FEATURES)]


class Contract(Struct, frozen=True, kw_only=True):
    """What each column of a policy's inputs and outputs means, in order: order maps to motors."""

    action_names: Names
    vectors: VectorNames
    cameras: CameraShapes
    fps: Fps
    policy_type: Label
    robot_type: Label


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a server serves, and how; it stays the same as long as the server runs.

    A policy that looks at `n_obs_steps` frames wants all but the present one as `history`.
    """

    model: Name
    revision: Name
    digest: Label
    contract: Contract
    chunk_size: Steps
    n_action_steps: Steps
    n_obs_steps: Annotated[int, Meta(ge=0, le=1 + MAX_HISTORY)]
    supports_rtc: bool
    rtc_horizon: Steps
    serving_mode: Name
    envelope_ms: Duration = 0.0
    """Round trip (p95) up to which the checkpoint was shown not to lose success; 0: not known."""


class StatusRequest(Message, frozen=True, kw_only=True):
    """Asks for a status; an empty payload means the same as the defaults."""

    with_clients: bool = False


class SessionStatus(Message, frozen=True, kw_only=True):
    """One robot on a server, and how it has been served since its session was opened."""

    client_id: Name
    session_id: Name
    robot_type: Label
    image_codec: Label
    """The codec of its last observation; empty before the first, and without images."""
    age_s: Duration
    idle_s: Duration
    episode_id: U32
    answered: Count
    failed: Count
    superseded: Count
    queue_wait_ms: Duration
    inference_ms: Duration
    """Both of the last chunk."""
    warnings: Remarks = ()
    """How this robot differs from what the policy was trained with, as its server sees it."""


class ServerStatus(Message, frozen=True, kw_only=True):
    """One server: what it serves, and its load. Names are full ones.

    `instance_id` is new with each start of a server. `clients` is empty unless asked for.
    `insecure`: its network is beyond loopback and has no TLS, so that anybody there can send in its
    name.
    """

    service: Name
    server: Name
    instance_id: Name
    capabilities: Capabilities
    draining: bool
    sessions: Count
    max_sessions: Count
    load: Load
    clients: Annotated[tuple[SessionStatus, ...], Meta(max_length=MAX_CLIENTS)] = ()
    oldest_schema: Count = OLDEST_VERSION
    newest_schema: Count = SCHEMA_VERSION
    insecure: bool = False


class SessionOpen(Message, frozen=True, kw_only=True):
    """What a robot is and wants; the server compares it with the checkpoint's contract.

    Names are full ones: two that fold to one key segment are told apart here. `session_epoch`
    counts this client's sessions, so that a late chunk of an earlier one is recognised.
    `pin_digest` is empty when any checkpoint will do. `episode_id` and `seq_id` are the numbers
    that the robot used last: those of its observations go on from there.
    """

    model: Name
    revision: Name
    service: Name
    client_id: Name
    session_epoch: U32
    action_names: Names
    vectors: VectorNames
    cameras: CameraShapes
    fps: Fps
    robot_type: Label
    task: TaskText = ""
    wants_rtc: bool = False
    pin_digest: Label = ""
    image_codec: CodecChoice = "auto"
    tags: Tags = field(default_factory=dict)
    oldest_schema: Count = OLDEST_VERSION
    newest_schema: Count = SCHEMA_VERSION
    episode_id: U32 = 0
    seq_id: U64 = 0


class SessionAck(Message, frozen=True, kw_only=True):
    """The session is open; `warnings` are for a person to read, `insecure` is that of the status.

    Both sides write `schema_version` into the headers of this session's messages.
    """

    session_id: Name
    session_epoch: U32
    schema_version: Count
    instance_id: Name
    capabilities: Capabilities
    image_codec: CodecChoice
    load: Load
    warnings: Warnings = ()
    insecure: bool = False


class SessionRejected(Message, frozen=True, kw_only=True):
    """No session: which check failed, and why.

    `check` is one of name, action_names, vectors, cameras, schema, digest, fps, task, capacity,
    busy, draining. It is no closed list, so that an older robot can still read a newer server's
    reason.
    With "capacity", "busy" and "draining" another replica may take the robot.
    """

    check: Name
    reason: Text
    load: Load = 0.0


class SessionClose(Message, frozen=True, kw_only=True):
    """The robot is done."""

    client_id: Name
    session_id: Name


class SessionCloseAck(Message, frozen=True, kw_only=True):
    """The session is closed."""

    session_id: Name


class Reset(Message, frozen=True, kw_only=True):
    """A new episode begins."""

    session_id: Name
    session_epoch: U32
    episode_id: U32


class ResetAck(Message, frozen=True, kw_only=True):
    """Nothing of an earlier episode will be used from here on."""

    session_id: Name
    episode_id: U32


SessionRequest = SessionOpen | SessionClose
SessionReply = SessionAck | SessionRejected | SessionCloseAck | SessionClosed
ResetReply = ResetAck | SessionClosed

STATUS_REQUEST: Body[StatusRequest] = Body("status request", StatusRequest, QUESTION)
STATUS: Body[ServerStatus] = Body("status", ServerStatus, STATUS_ANSWER)
SESSION_REQUEST: Body[SessionRequest] = Body("session", SessionRequest, SESSION_QUESTION)
SESSION_REPLY: Body[SessionReply] = Body("session reply", SessionReply, SESSION_ANSWER)
RESET: Body[Reset] = Body("reset", Reset, QUESTION)
RESET_REPLY: Body[ResetReply] = Body("reset reply", ResetReply, ANSWER)
