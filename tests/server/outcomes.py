"""An outcome and a status to change a field of."""

from dataclasses import replace

import msgspec

from lefleet.server.outcome import Outcome
from lefleet_client.wire import ServerStatus
from tests.client.wire import samples

ANSWERED = Outcome(
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


def outcome(**changes: object) -> Outcome:
    return replace(ANSWERED, **changes)


def status(**changes: object) -> ServerStatus:
    return msgspec.structs.replace(samples.status(), **changes)
