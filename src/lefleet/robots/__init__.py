"""A simulated robot for LeRobot: a plugin, so that LeRobot's programs drive it like a real one.

`--robot.discover_packages_path=lefleet.robots --robot.type=lefleet_sim` makes it known to the
stock `lerobot-rollout`: LeRobot imports the modules of this package, `config` registers the robot,
and the device class is found here under the config's name without `Config`. With
`--teleop.type=lefleet_sim_expert` the script of its task takes the place of a person.

    config        the fields of --robot.*, and LeRobot's registry entry
    command       a robot action, checked: displacements of the hand, or positions to move to
    scene         episodes of one task: the world, its steps, success and progress; no LeRobot
    device        the LeRobot robot: observations, actions, time; which robots are connected
    teleoperator  the scripted expert as a LeRobot teleoperator

Imports `errors` and `sim` of lefleet; `cli` may import it. Actions come from LeRobot's strategies
through the edge's guard, observations go to an inference engine. Nothing is stored.
"""

from lefleet.robots.config import LeFleetSimConfig
from lefleet.robots.device import LeFleetSim
from lefleet.robots.scene import SimExtras
from lefleet.robots.teleoperator import LeFleetSimExpert, LeFleetSimExpertConfig

__all__ = [
    "LeFleetSim",
    "LeFleetSimConfig",
    "LeFleetSimExpert",
    "LeFleetSimExpertConfig",
    "SimExtras",
]
