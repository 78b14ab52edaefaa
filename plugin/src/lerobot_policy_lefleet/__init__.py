"""A LeRobot policy that runs elsewhere: `--policy.type=lefleet` asks a LeFleet policy server.

It also registers a processor step of checkpoints that LeFleet trains without cameras.

    configuration_lefleet  where the server is, and how to ask it
    modeling_lefleet       the policy: chunks from the server, one action at a time
    processor_lefleet      processors that leave everything as it is
    rows                   LeRobot's batches as the server's observations
    environment_state      the step that makes an environment state from the robot's state

LeRobot imports this package by the name of its distribution, and finds the modules by theirs.
Batches come from LeRobot's programs and go to `lefleet_client.remote`; actions go the other way.
Imports lerobot, torch and lefleet_client, nothing of lefleet.
"""

from lerobot_policy_lefleet.configuration_lefleet import LefleetConfig
from lerobot_policy_lefleet.environment_state import ENVIRONMENT_STEP, EnvironmentStateStep

__all__ = ["ENVIRONMENT_STEP", "EnvironmentStateStep", "LefleetConfig"]
