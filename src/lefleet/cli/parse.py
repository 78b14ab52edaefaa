"""A command line to a typed command, and its paths to absolute ones."""

from dataclasses import fields, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes

from lefleet.cli.commands import (
    AnyCommand,
    CollectCommand,
    OutputOptions,
    ReplayCommand,
    RunCommand,
    ServeCommand,
    TrainCommand,
)
from lefleet.errors import BadInput

_DESCRIPTION = (
    "Collect, train, evaluate and improve LeRobot policies in a loop, and serve them to robots."
)
_WITH_FILE: dict[str, type] = {
    "run": RunCommand,
    "demo": RunCommand,
    "serve": ServeCommand,
    "replay": ReplayCommand,
}
"""Commands with a config file or manifest: a --key=value flag that is not among the command's own
overrides a field of the file."""


class ParsedCommand(NamedTuple):
    """A command and the --key=value flags that override its config or manifest."""

    command: OutputOptions
    overrides: tuple[str, ...] = ()


def parse(arguments: list[str]) -> ParsedCommand:
    """Arguments to a command; prints help or an error and exits 2 where they are wrong."""
    if arguments and (command_type := _WITH_FILE.get(arguments[0])):
        overrides = [one for one in arguments[1:] if _is_override(one, command_type)]
        own = [one for one in arguments if one not in overrides]
        _require_equals_signs(own, command_type)
        return ParsedCommand(_command(own), tuple(overrides))
    where = arguments.index("--") if "--" in arguments else len(arguments)
    command, extra = _command(arguments[:where]), arguments[where + 1 :]
    if not extra:
        return ParsedCommand(command)
    if not isinstance(command, TrainCommand):
        raise BadInput("--: only train takes further flags.", "Remove everything from -- on.")
    request = msgspec.structs.replace(command.request, extra_args=tuple(extra))
    return ParsedCommand(replace(command, request=request))


def absolute(path: Path | str, field: str) -> Path:
    """A path that the user gave as `field`, with ~ replaced."""
    try:
        return Path(path).expanduser().resolve()
    except RuntimeError as error:
        raise BadInput(
            f"{field}: {path}: there is no such user.", "Write the full path."
        ) from error


def _is_override(argument: str, command: type) -> bool:
    """Whether a flag sets a field of the config or manifest rather than of the command."""
    name = argument.removeprefix("--").partition("=")[0].replace("_", "-")
    return argument.startswith("--") and "=" in argument and name not in _flags(command)


def _require_equals_signs(arguments: list[str], command: type) -> None:
    """Refuse `--key value` for overrides: only the command's own flags may be written with a space.

    A likely misspelling of an own flag is left to the parser, which suggests the right one.
    """
    own = [*_flags(command), "help"]
    for flag, value in pairwise(arguments):
        name = flag.removeprefix("--").replace("_", "-")
        is_flag = flag.startswith("--") and len(flag) > 2 and "=" not in flag
        if is_flag and not value.startswith("-") and not get_close_matches(name, own):
            raise BadInput(f"{flag}: its value must follow an =.", f"Write {flag}={value}")


def _flags(command: type) -> list[str]:
    return [field.name.replace("_", "-") for field in fields(command)]


def _command(arguments: list[str]) -> OutputOptions:
    parsed = tyro.cli(
        AnyCommand,
        prog="lefleet",
        description=_DESCRIPTION,
        args=arguments,
        config=(OmitArgPrefixes, FlagCreatePairsOff),
    )
    return parsed.source if isinstance(parsed, CollectCommand) else parsed
