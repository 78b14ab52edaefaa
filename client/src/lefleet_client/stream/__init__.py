"""Actions at a robot's control rate from a policy that runs elsewhere, through network faults.

    failsafe  in what state the robot is: a pure function of events and the clock
    queue     actions that wait to be executed, and how a new chunk is merged into them
    timing    round trips, and what follows from them: buffer, delay, the age that is allowed
    fallback  what a robot does without a fresh action
    settings  how a robot asks and what it does in trouble, and whether that works with a policy
    records   what the threads hand to each other, and what a stream tells of itself
    worker    the thread that asks the server, one request at a time
    stream    ActionStream: what the control loop calls
    watch     the thread that notices that time passes, and publishes the robot's state
    lockstep  the same without threads: ask, wait, execute; for simulations

Observations come from a control loop, which gets actions back at once. Chunks come through
`remote`. The control loop never waits for a network, for encoding, or for a lock that is held over
either. Imports numpy, `remote`, `transport` and `wire`. lefleet's rollout engine imports it, and so
may a robot program without LeRobot.
"""

from lefleet_client.stream.failsafe import FailSafe, FailSafeLimits, Mode
from lefleet_client.stream.fallback import Fallback
from lefleet_client.stream.lockstep import LockStep
from lefleet_client.stream.queue import Origin
from lefleet_client.stream.records import Executed, StreamStatus
from lefleet_client.stream.settings import StreamSettings
from lefleet_client.stream.stream import ActionStream

__all__ = [
    "ActionStream",
    "Executed",
    "FailSafe",
    "FailSafeLimits",
    "Fallback",
    "LockStep",
    "Mode",
    "Origin",
    "StreamSettings",
    "StreamStatus",
]
