"""Raw MetaWorld observation to policy vectors.

MetaWorld observes 39 numbers: hand (3), gripper (1), two objects with position (3) and quaternion
(4, in an order that differs from task to task), the same 18 a step earlier, and the goal (3). The
policy gets the hand and gripper as its state, and objects, goal and a one-hot of the task as its
environment state.

Positions go through one fixed affine map in which ten centimetres are one unit: grasping is a
matter of centimetres, and a policy that sees metres learns them late. Being fixed, the map needs
no dataset statistics, so checkpoints of different cycles see the world alike; statistics would
also divide by the near-zero spread of coordinates that hardly move.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lefleet.sim.tasks import TASKS

FPS = 80
"""Control steps per second of MetaWorld's simulation."""
ROBOT_TYPE = "metaworld_sawyer"
"""What datasets, contracts and the simulated robot call it."""

# LeRobot's rollout passes only scalars named .pos and .vel on to a policy, and drives a robot back
# to its first .pos values. So the robot's own columns end that way and the environment's do not,
# and the gripper's opening and its command, whose signs are opposite, have different names.
ACTION_NAMES = ("hand_x.vel", "hand_y.vel", "hand_z.vel", "gripper_close.pos")
STATE_NAMES = ("hand_x.pos", "hand_y.pos", "hand_z.pos", "gripper_open.pos")
ENVIRONMENT_NAMES = (
    *(f"object{i}_{axis}" for i in (1, 2) for axis in ("x", "y", "z", "q0", "q1", "q2", "q3")),
    "goal_x",
    "goal_y",
    "goal_z",
    *(f"task_{name}" for name in TASKS),
)

Vector = npt.NDArray[np.float32]

_CENTRE = np.array([0.0, 0.65, 0.2])
_UNIT = 0.1
_TASK_COLUMN = {name: column for column, name in enumerate(TASKS)}


class EncodedObservation(NamedTuple):
    """What the policy sees of one step."""

    state: Vector
    environment: Vector


def encode(raw: npt.NDArray[np.float64], task: str) -> EncodedObservation:
    """EncodedObservation of one step; `raw` is MetaWorld's vector of 39."""
    state = np.empty(len(STATE_NAMES), np.float32)
    state[:3] = (raw[0:3] - _CENTRE) / _UNIT
    state[3] = raw[3]
    environment = np.zeros(len(ENVIRONMENT_NAMES), np.float32)
    environment[0:3] = (raw[4:7] - _CENTRE) / _UNIT
    environment[3:7] = raw[7:11]
    environment[7:10] = (raw[11:14] - _CENTRE) / _UNIT
    environment[10:14] = raw[14:18]
    environment[14:17] = (raw[36:39] - _CENTRE) / _UNIT
    environment[17 + _TASK_COLUMN[task]] = 1.0
    return EncodedObservation(state, environment)
