"""LeRobot's side of the edge: a robot's control loop whose policy is on a server.

    guard     around `Robot.send_action`, the last code before the driver
    judge     which command may be sent in place of an action: the limits of the guard
    limits    whether the constitution allows a rollout, and its limits for the guard
    config    the flags of `--inference.type=remote`, registered with LeRobot
    flags     the flags of a whole rollout: LeRobot's, and the guard's
    features  a robot's features and observations in the words of a policy's contract
    engine    LeRobot's inference engine with the policy elsewhere: streamed, or in lock-step
    local     LeRobot's own engines, where the weights are here
    datasets  what a robot records
    context   what LeRobot's strategies work with
    episodes  where an episode begins and ends, and whether it succeeded
    rollout   one rollout from its config to its end

The control loop, recording and teleoperation are LeRobot's own rollout. Imports `errors`,
`records`, `constitution` and `recording` of lefleet, the client and LeRobot; not `robots`, since it
drives any LeRobot robot. `cli` and `testbed` may import it. Observations come from the robot and go
to a policy server through the client; chunks come back, and their actions go through the guard to
the robot.
"""

from lefleet.edge.config import RemoteInferenceConfig
from lefleet.edge.context import build_context
from lefleet.edge.engine import LockStepEngine, RemoteInferenceEngine
from lefleet.edge.guard import GuardedRobot
from lefleet.edge.judge import GuardConfig

__all__ = [
    "GuardConfig",
    "GuardedRobot",
    "LockStepEngine",
    "RemoteInferenceConfig",
    "RemoteInferenceEngine",
    "build_context",
]
