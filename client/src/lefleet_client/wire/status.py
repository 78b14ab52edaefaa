"""What a server says about itself to whoever looks for one."""

from typing import Annotated

from msgspec import Meta

from lefleet_client.wire.base import Message
from lefleet_client.wire.contract import Contract
from lefleet_client.wire.limits import U32, Count, Duration, Load, Name, Text
from lefleet_client.wire.version import OLDEST_VERSION, SCHEMA_VERSION


class SessionStatus(Message, frozen=True, kw_only=True):
    """One robot on a server, and how it has been served since its session was opened."""

    client_id: Name
    session_id: Name
    robot_type: Text
    image_codec: Text
    """The codec of its last observation; empty before the first, and without images."""
    age_s: Duration
    idle_s: Duration
    episode_id: U32
    answered: Count
    failed: Count
    superseded: Count
    queue_wait_ms: Duration
    inference_ms: Duration
    """Both of the last answer."""


class Status(Message, frozen=True, kw_only=True):
    """Capabilities and load of one server; names are full ones."""

    model: Name
    revision: Name
    service: Name
    server: Name
    digest: Text
    contract: Contract
    chunk_size: Count
    n_action_steps: Count
    n_obs_steps: Count
    supports_rtc: bool
    rtc_horizon: Count
    serving_mode: Name
    warmed_up: bool
    draining: bool
    sessions: Count
    max_sessions: Count
    load: Load
    clients: Annotated[tuple[SessionStatus, ...], Meta(max_length=4096)] = ()
    oldest_schema: Count = OLDEST_VERSION
    newest_schema: Count = SCHEMA_VERSION
