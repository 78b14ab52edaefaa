"""A command line to a typed command, and its paths to absolute ones."""

from dataclasses import fields, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, subcommand

from lefleet.cli.certs import CertsCommand
from lefleet.cli.commands import (
    CollectCommand,
    CompareCommand,
    ContractCommand,
    DemoCommand,
    DoctorCommand,
    EvaluateCommand,
    FleetCommand,
    ImproveCommand,
    OutputOptions,
    PingCommand,
    ReplayCommand,
    ResumeCommand,
    RouterCommand,
    RunCommand,
    ServeCommand,
    StatusCommand,
    StopCommand,
    TrainCommand,
)
from lefleet.errors import BadInput

AnyCommand = (
    Annotated[DemoCommand, subcommand("demo", prefix_name=False)]
    | Annotated[RunCommand, subcommand("run", prefix_name=False)]
    | Annotated[ResumeCommand, subcommand("resume", prefix_name=False)]
    | Annotated[StopCommand, subcommand("stop", prefix_name=False)]
    | Annotated[StatusCommand, subcommand("status", prefix_name=False)]
    | Annotated[CollectCommand, subcommand("collect", prefix_name=False)]
    | Annotated[TrainCommand, subcommand("train", prefix_name=False)]
    | Annotated[EvaluateCommand, subcommand("eval", prefix_name=False)]
    | Annotated[CompareCommand, subcommand("compare", prefix_name=False)]
    | Annotated[ImproveCommand, subcommand("improve", prefix_name=False)]
    | Annotated[ServeCommand, subcommand("serve", prefix_name=False)]
    | Annotated[RouterCommand, subcommand("router", prefix_name=False)]
    | Annotated[FleetCommand, subcommand("fleet", prefix_name=False)]
    | Annotated[PingCommand, subcommand("ping", prefix_name=False)]
    | Annotated[CertsCommand, subcommand("certs", prefix_name=False)]
    | Annotated[ReplayCommand, subcommand("replay", prefix_name=False)]
    | Annotated[ContractCommand, subcommand("contract", prefix_name=False)]
    | Annotated[DoctorCommand, subcommand("doctor", prefix_name=False)]
)
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
_ALSO_A_FIELD = "insecure"
"""A flag of serve and a field of its manifest: --insecure and --insecure=true both work."""


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
    is_own = name in _flags(command) and name != _ALSO_A_FIELD
    return argument.startswith("--") and "=" in argument and not is_own


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
    match parsed:
        case CollectCommand():
            return parsed.source
        case CertsCommand():
            return parsed.action
    return parsed
