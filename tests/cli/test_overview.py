"""The list of commands, and that it agrees with the commands themselves."""

import subprocess
import sys

import pytest

from lefleet.cli.approvals import APPROVAL_COMMANDS
from lefleet.cli.certs import CERTS_COMMANDS
from lefleet.cli.cluster import CLUSTER_COMMANDS
from lefleet.cli.commands import COMMANDS
from lefleet.cli.constitution import CONSTITUTION_COMMANDS
from lefleet.cli.dash import DASH_COMMANDS
from lefleet.cli.episodes import EPISODE_COMMANDS
from lefleet.cli.films import FILM_COMMANDS
from lefleet.cli.inspect import INSPECT_COMMANDS
from lefleet.cli.knowledge import KNOWLEDGE_COMMANDS
from lefleet.cli.ledger import LEDGER_COMMANDS
from lefleet.cli.overview import GROUPS, NESTED, overview, requested_help
from lefleet.cli.run_report import REPORT_COMMANDS
from lefleet.cli.track import TRACK_COMMANDS

ALL = {**COMMANDS, **CERTS_COMMANDS, **EPISODE_COMMANDS, **FILM_COMMANDS}
ALL |= APPROVAL_COMMANDS | CONSTITUTION_COMMANDS | DASH_COMMANDS | KNOWLEDGE_COMMANDS
ALL |= REPORT_COMMANDS | INSPECT_COMMANDS | LEDGER_COMMANDS | TRACK_COMMANDS | CLUSTER_COMMANDS
DOES = {name: does for group in GROUPS.values() for name, does in group.items()}
DOES |= {f"{first} {second}": does for first in NESTED for second, does in NESTED[first].items()}


def test_every_command_is_listed_once():
    assert set(DOES) - set(NESTED) == {*ALL, "rollout"}  # whose flags are LeRobot's


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_command_is_described_as_in_its_own_help(name):
    about = " ".join((ALL[name].__doc__ or "").split())
    first = DOES[name].removesuffix(".").partition(", and")[0].partition(" and")[0]
    assert about.startswith(first)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_without_a_command_lists_them(flag):
    text = requested_help([flag])
    assert text == overview()
    assert all(f"  {name} " in text for group in GROUPS.values() for name in group)
    assert max(len(line) for line in text.splitlines()) <= 100


def test_help_of_a_command_of_two_words_lists_the_second_ones():
    text = requested_help(["certs", "--help"])
    assert all(f"  {name} " in text for name in NESTED["certs"])
    assert requested_help(["certs", "init", "--help"]) is None


def test_a_command_may_have_commands_below_it():
    text = requested_help(["dash", "token", "--help"])
    assert text.startswith("usage: lefleet dash token {add,list,revoke}")
    assert all(f"  {name} " in text for name in NESTED["dash token"])
    for line in (["dash", "--help"], ["dash", "token", "add", "--help"], ["dash"]):
        assert requested_help(line) is None


def test_the_overview_needs_neither_the_parser_nor_the_records():
    program = (
        "import sys; from lefleet.cli import main; sys.argv = ['lefleet', '--help']; main();"
        "print(sorted({'tyro', 'msgspec', 'rich', 'yaml', 'sqlalchemy'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert out.endswith(b"[]\n")
