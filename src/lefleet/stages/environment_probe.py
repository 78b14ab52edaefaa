"""Whether LeRobot can make an environment here: `lefleet environment probe --env.NAME=VALUE …`
prints a report.

A program of its own, because it imports LeRobot, the package that a flag names, and simulators.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout

import msgspec

from lefleet.constitution.argv import lerobot_flags
from lefleet.errors import LeFleetError
from lefleet.records.border import Strict
from lefleet.rollouts import EnvironmentDescription

_MOVES_ROBOTS = "gym_manipulator"
"""The type behind which may be a real robot."""


class EnvironmentReport(Strict, frozen=True, kw_only=True):
    """What the probe found."""

    description: EnvironmentDescription | None = None
    """None where there is a problem, and where the environment must not be made to look at it."""
    problem: str = ""
    remedy: str = ""


def main(arguments: Sequence[str]) -> int:
    """Print the report as one line of JSON, which is the last one."""
    flags = {key.removeprefix("env."): value for key, value in lerobot_flags(arguments).items()}
    with redirect_stdout(sys.stderr):
        report = examine(flags)
    sys.stdout.write(f"\n{msgspec.json.encode(report).decode()}\n")
    return 0


def examine(flags: Mapping[str, str]) -> EnvironmentReport:
    """Make the environment of these flags and describe it; no episode is run. One that may move a
    robot, or is code of the hub, is only looked up."""
    from lefleet.rollouts.environments import make_environment

    try:
        found = make_environment(flags)
        if flags.get("type") == _MOVES_ROBOTS or getattr(found.config, "hub_path", None):
            return EnvironmentReport()
        return EnvironmentReport(description=found.describe())
    except LeFleetError as error:
        return EnvironmentReport(problem=error.problem, remedy=error.remedy)
