"""The page about robots: its commands are understood, and no flag of LeRobot's is forgotten."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from lerobot.async_inference.configs import PolicyServerConfig, RobotClientConfig
from lerobot.scripts import lerobot_rollout  # noqa: F401 - registers robots and teleoperators

import lefleet.robots  # noqa: F401 - registers the simulated ones
from lefleet.cli.rollout import _USAGE
from lefleet.edge.flags import parse_flags

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "edge.md").read_text()
TEXTS = (PAGE, (DOCS / "failsafe.md").read_text(), (DOCS.parent / "README.md").read_text(), _USAGE)


def commands() -> list[str]:
    joined = (text.replace("\\\n", " ") for text in TEXTS)
    pattern = r"^\s*(?:\.venv/bin/)?lefleet rollout (--.*)$"
    return [one for text in joined for one in re.findall(pattern, text, re.MULTILINE)]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_pages_is_understood(command):
    # A checkpoint of one's own is not here to be read.
    flags = [one for one in shlex.split(command) if not one.startswith("--policy.path=")]
    parse_flags([*flags, *(["--inference.type=remote"] if "remote" not in command else [])])


def test_there_are_commands():
    assert len(commands()) >= 10


@pytest.mark.parametrize("config", [RobotClientConfig, PolicyServerConfig])
def test_every_flag_of_async_inference_has_a_row(config):
    table = PAGE.partition("## From LeRobot's async inference")[2]
    assert [one.name for one in fields(config) if f"`--{one.name}" not in table] == []
