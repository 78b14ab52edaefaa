"""Which actions the simulated arm accepts."""

import math

import numpy as np
import pytest

from lefleet.errors import BadInput
from lefleet.robots.command import Displacement, Position, parse_command
from lefleet.sim.encode import ACTION_NAMES, STATE_NAMES

STILL = dict.fromkeys(ACTION_NAMES, 0.0)
HOME = dict.fromkeys(STATE_NAMES, 0.0)


def test_displacements_are_clipped_to_the_range_that_the_robot_executes():
    command = parse_command(STILL | {"hand_x.vel": 3.0, "gripper_close.pos": -0.5})
    assert isinstance(command, Displacement)
    assert command.values.tolist() == [1.0, 0.0, 0.0, -0.5]


def test_keys_may_come_in_any_order():
    action = dict(zip(reversed(ACTION_NAMES), (0.4, 0.3, 0.2, 0.1), strict=True))
    assert parse_command(action).values.tolist() == [0.1, 0.2, 0.3, 0.4]


def test_a_position_moves_towards_itself_and_its_gripper_opens():
    command = parse_command(HOME | {"hand_y.pos": 0.1, "gripper_open.pos": 1.0})
    assert isinstance(command, Position)
    action = command.action(np.zeros(4, np.float32))
    assert action[0] == 0
    assert 0 < action[1] < 1
    assert action[3] == -1


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (STILL | {"hand_q.vel": 0.0}, r"no 'hand_q.vel'. Did you mean hand_"),
        (STILL | {"hand_x.pos": 0.0}, "mixes displacements and positions"),
        ({"hand_x.vel": 0.0, "hand_y.vel": 0.0}, r"hand_z.vel, gripper_close.pos missing"),
        ({"hand_x.pos": 0.0}, r"hand_y.pos, hand_z.pos, gripper_open.pos missing"),
        ({}, "missing"),
        (STILL | {"hand_x.vel": math.nan}, "hand_x.vel is nan"),
        (HOME | {"hand_z.pos": math.inf}, "hand_z.pos is inf"),
        (STILL | {"hand_x.vel": None}, "hand_x.vel is None, not a number"),
    ],
)
def test_everything_else_is_refused_by_name(action, message):
    with pytest.raises(BadInput, match=message):
        parse_command(action)
