"""Rules that allow everything, for tests that start programs of their own."""

from pathlib import Path

from lefleet.constitution import Constitution, Grants, Rules
from lefleet.constitution.active import RULES_VARIABLE, handed_down, installed
from lefleet.constitution.schema import CommandRule, RobotRules

ALL = ("*",)
EVERYTHING = Rules(
    constitution=Constitution(
        version=1,
        real_hardware=True,
        uploads=True,
        commands={"*": CommandRule(arguments={"*": None}, positional=ALL)},
        environments=ALL,
        robots=RobotRules(allowed=ALL),
        datasets=ALL,
        checkpoints=ALL,
        config_paths=ALL,
        plugins=ALL,
        variables=ALL,
    ),
    grants=Grants(folders=(str(Path("/")),)),
)
with installed(EVERYTHING):
    VARIABLE, VALUE = RULES_VARIABLE, handed_down()[RULES_VARIABLE]
"""What makes these the rules of a child."""
