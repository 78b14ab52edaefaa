"""What a robot action asks of the simulated arm: displacements of the hand, or positions."""

import difflib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lefleet.errors import BadInput
from lefleet.sim.encode import ACTION_NAMES, STATE_NAMES, Vector

ActionVector = npt.NDArray[np.float64]

# Actions per unit of position error. A displacement of 1 moves the hand's target by a tenth of a
# unit, so 10 would close the gap in one step; but the hand follows its target with a delay, and
# above 4 it oscillates around the position.
_HAND_GAIN = 3.0
_GRIPPER_GAIN = 10.0


class Displacement(NamedTuple):
    """Movement of the hand per step, and whether the gripper closes: what policies command."""

    values: ActionVector

    def action(self, state: Vector) -> ActionVector:  # noqa: ARG002
        """The action of the next step."""
        return self.values


class Position(NamedTuple):
    """A place for the hand and an opening of the gripper, as observed: what homing commands."""

    values: ActionVector

    def action(self, state: Vector) -> ActionVector:
        """The action of the next step from `state`, proportional to what is left to move."""
        left = self.values - state
        left[:3] *= _HAND_GAIN
        left[3] *= -_GRIPPER_GAIN  # the gripper's command closes, its observation opens
        return np.clip(left, -1.0, 1.0)


Command = Displacement | Position


def parse_command(action: Mapping[str, Any]) -> Command:
    """All of ACTION_NAMES or all of STATE_NAMES, finite; everything else is refused."""
    names = set(action)
    unknown = sorted(names - {*ACTION_NAMES, *STATE_NAMES})
    if unknown:
        raise BadInput(f"action: the robot has no {unknown[0]!r}.", _near(unknown[0]))
    if names & set(ACTION_NAMES) and names & set(STATE_NAMES):
        raise BadInput(
            f"action: mixes displacements and positions: {', '.join(sorted(names))}.",
            f"Send {', '.join(ACTION_NAMES)}, or {', '.join(STATE_NAMES)}.",
        )
    is_displacement = bool(names & set(ACTION_NAMES))
    expected = ACTION_NAMES if is_displacement else STATE_NAMES
    missing = [name for name in expected if name not in names]
    if missing:
        raise BadInput(f"action: {', '.join(missing)} missing.")
    values = np.array([_number(name, action[name]) for name in expected])
    return Displacement(np.clip(values, -1.0, 1.0)) if is_displacement else Position(values)


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadInput(f"action: {name} is {value!r}, not a number.") from None
    if not math.isfinite(number):
        raise BadInput(f"action: {name} is {number}; the robot moves to finite numbers only.")
    return number


def _near(name: str) -> str:
    near = difflib.get_close_matches(name, [*ACTION_NAMES, *STATE_NAMES], n=1)
    return f"Did you mean {near[0]}?" if near else f"It has {', '.join(ACTION_NAMES)}."
