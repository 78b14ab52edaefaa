"""Opening and closing a session, and the acknowledged border between two episodes."""

from typing import Annotated, Literal

from msgspec import Meta, field

from lefleet_client.wire.base import Message
from lefleet_client.wire.contract import CameraShapes, Contract, Fps, VectorNames
from lefleet_client.wire.event import SessionClosed
from lefleet_client.wire.limits import MAX_FEATURES, U32, Count, Load, Name, Names, Text
from lefleet_client.wire.version import OLDEST_VERSION, SCHEMA_VERSION

CodecChoice = Literal["auto", "jpeg", "raw"]
"""auto: the robot probes both, and takes the faster one."""
Warnings = Annotated[tuple[Text, ...], Meta(max_length=256)]
Tags = Annotated[dict[Name, Text], Meta(max_length=MAX_FEATURES)]


class SessionOpen(Message, frozen=True, kw_only=True):
    """What a robot is and wants; the server compares it with the checkpoint's contract.

    Names are full ones: two that fold to one key segment are told apart here. `session_epoch`
    counts this client's sessions, so that a late answer to an earlier one is recognised.
    `pin_digest` is empty when any checkpoint will do.
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
    robot_type: Text
    task: Text = ""
    wants_rtc: bool = False
    pin_digest: Text = ""
    image_codec: CodecChoice = "auto"
    tags: Tags = field(default_factory=dict)
    oldest_schema: Count = OLDEST_VERSION
    newest_schema: Count = SCHEMA_VERSION


class SessionAck(Message, frozen=True, kw_only=True):
    """The session is open; `warnings` are for a person to read.

    A policy that looks at `n_obs_steps` frames wants all but the present one as `history`.
    """

    session_id: Name
    session_epoch: U32
    schema_version: Count
    model: Name
    revision: Name
    digest: Text
    contract: Contract
    chunk_size: Count
    n_action_steps: Count
    n_obs_steps: Count
    supports_rtc: bool
    rtc_horizon: Count
    serving_mode: Name
    image_codec: CodecChoice
    warmed_up: bool
    load: Load
    warnings: Warnings = ()


class SessionRejected(Message, frozen=True, kw_only=True):
    """No session: which check failed, and why.

    `check` is one of name, action_names, vectors, cameras, schema, digest, fps, task, capacity,
    draining. It is no closed list, so that an older robot can still read a newer server's reason.
    With "capacity" and "draining" another replica may take the robot.
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
