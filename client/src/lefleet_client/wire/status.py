"""What a server says about itself to whoever looks for one."""

from lefleet_client.wire.base import Message
from lefleet_client.wire.contract import Contract
from lefleet_client.wire.limits import Count, Load, Name, Text
from lefleet_client.wire.version import OLDEST_VERSION, SCHEMA_VERSION


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
    supports_rtc: bool
    rtc_horizon: Count
    serving_mode: Name
    warmed_up: bool
    draining: bool
    sessions: Count
    max_sessions: Count
    load: Load
    oldest_schema: Count = OLDEST_VERSION
    newest_schema: Count = SCHEMA_VERSION
