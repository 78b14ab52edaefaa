"""A command line to a typed command, and its paths to absolute ones."""

from dataclasses import replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes

from lefleet.cli.commands import COMMANDS, TrainCommand
from lefleet.cli.options import OutputOptions
from lefleet.cli.overview import split_command
from lefleet.cli.usage import flags, plain_mistakes
from lefleet.errors import BadInput
from lefleet.records import RunConfig

_WITH_FIELDS = ("run", "demo", "resume", "serve", "replay", "doctor")
"""Commands with a config or manifest: a --key=value flag that is not among the command's own
overrides a field of it."""
_ALSO_A_FIELD = "--insecure"
"""A flag of serve and a field of its manifest: --insecure and --insecure=true both work."""


class ParsedCommand(NamedTuple):
    """A command and the --key=value flags that override its config or manifest."""

    command: OutputOptions
    overrides: tuple[str, ...] = ()


def parse(arguments: list[str]) -> ParsedCommand:
    """Arguments to a command. A command's --help prints it and exits."""
    name, given = split_command(arguments)
    command_type = _command_type(name)
    if name in _WITH_FIELDS:
        overrides = [one for one in given if _is_override(one, command_type)]
        own = [one for one in given if one not in overrides]
        _refuse_misspelt(overrides, name, command_type)
        _require_equals_signs(own, command_type)
        return ParsedCommand(_command(name, command_type, own), tuple(overrides))
    where = given.index("--") if "--" in given else len(given)
    command, extra = _command(name, command_type, given[:where]), given[where + 1 :]
    if not extra:
        return ParsedCommand(command)
    if not isinstance(command, TrainCommand):
        raise BadInput("--: only train takes further flags.", "Remove everything from -- on.")
    request = msgspec.structs.replace(command.request, extra_args=tuple(extra))
    return ParsedCommand(replace(command, request=request))


def absolute(path: Path | str, field: str) -> Path:
    """A path that the user gave as `field`, with ~ replaced."""
    try:
        expanded = Path(path).expanduser()
    except RuntimeError as error:
        raise BadInput(
            f"{field}: {path}: there is no such user.", "Write the full path."
        ) from error
    try:
        return expanded.resolve()
    except (RuntimeError, OSError) as error:
        raise BadInput(f"{field}: {path} is a link that leads back to itself.") from error


def _command_type(name: str) -> type[OutputOptions]:
    if name in COMMANDS:
        return COMMANDS[name]
    from lefleet.cli.approvals import APPROVAL_COMMANDS
    from lefleet.cli.certs import CERTS_COMMANDS
    from lefleet.cli.cluster import CLUSTER_COMMANDS
    from lefleet.cli.constitution import CONSTITUTION_COMMANDS
    from lefleet.cli.dash import DASH_COMMANDS
    from lefleet.cli.episodes import EPISODE_COMMANDS
    from lefleet.cli.films import FILM_COMMANDS
    from lefleet.cli.inspect import INSPECT_COMMANDS
    from lefleet.cli.knowledge import KNOWLEDGE_COMMANDS
    from lefleet.cli.ledger import LEDGER_COMMANDS
    from lefleet.cli.run_report import REPORT_COMMANDS
    from lefleet.cli.track import TRACK_COMMANDS

    others = APPROVAL_COMMANDS | EPISODE_COMMANDS | CERTS_COMMANDS | CONSTITUTION_COMMANDS
    others |= DASH_COMMANDS | FILM_COMMANDS | KNOWLEDGE_COMMANDS | REPORT_COMMANDS
    others |= INSPECT_COMMANDS | CLUSTER_COMMANDS | LEDGER_COMMANDS
    others |= TRACK_COMMANDS
    return others[name]


def _command(name: str, command: type[OutputOptions], arguments: list[str]) -> OutputOptions:
    with plain_mistakes(name, command, arguments):
        return tyro.cli(
            command,
            prog=f"lefleet {name}",
            args=arguments,
            config=(OmitArgPrefixes, FlagCreatePairsOff),
        )


def _is_override(argument: str, command: type) -> bool:
    """Whether a flag sets a field of the config or manifest rather than of the command."""
    flag = argument.partition("=")[0].replace("_", "-")
    is_own = flag in flags(command) and flag != _ALSO_A_FIELD
    return argument.startswith("--") and "=" in argument and not is_own


def _refuse_misspelt(overrides: list[str], name: str, command: type) -> None:
    """Refuse `--flag=value` where a flag of the command was probably meant, and no field."""
    if not overrides:
        return
    fields = [f"--{field.replace('_', '-')}" for field in _fields(name)]
    own = flags(command)
    for override in overrides:
        written = override.partition("=")[0]
        flag = written.replace("_", "-")
        near = get_close_matches(flag, [*fields, *own], 1)
        is_field = "." in flag or flag in fields
        if not is_field and near and near[0] in own:
            raise BadInput(
                f"{name} has no flag {written}. Did you mean {near[0]}?",
                f"See: lefleet {name} --help",
            )


def _fields(name: str) -> tuple[str, ...]:
    """Of the config or manifest of a command."""
    if name in ("serve", "replay"):
        from lefleet.server.manifest import Manifest

        return Manifest.__struct_fields__
    return RunConfig.__struct_fields__


def _require_equals_signs(arguments: list[str], command: type) -> None:
    """Refuse `--key value` for overrides: only the command's own flags may be written with a space.

    A likely misspelling of an own flag is left to the parser, which suggests the right one.
    """
    own = [*flags(command), "--help"]
    for flag, value in pairwise(arguments):
        is_flag = flag.startswith("--") and len(flag) > 2 and "=" not in flag
        is_near = bool(get_close_matches(flag.replace("_", "-"), own))
        if is_flag and not value.startswith("-") and not is_near:
            raise BadInput(f"{flag}: its value must follow an =.", f"Write {flag}={value}")
