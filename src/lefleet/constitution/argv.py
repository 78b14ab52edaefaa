"""A command line to its program, its --key=value flags and its other arguments.

LeRobot's programs read a command line in two ways: draccus through argparse, and LeRobot's own
parser before it, for plugins, paths and config files. Where the two could disagree about a line,
or where a value is an order to read another file, the line is refused rather than interpreted.
"""

import re
import sys
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from lefleet.errors import Denied

OTHER_PYTHON = "python"
"""The interpreter with a script, with -c, or with options in front of -m."""
_FLAG = re.compile(r"--([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_PLAIN = re.compile(
    r"(?!include)(?:[\w/.+~]|-\w)[^\"'!&*|>%@`\\{}\[\]\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]*"
)
"""Text that YAML reads as it is written, as far as it matters here."""

_YAML_WORDS = frozenset({"null", "~", "true", "false", "yes", "no", "on", "off"})


class CommandLine(NamedTuple):
    """What is to be started."""

    program: str
    arguments: tuple[str, ...]


def split(argv: Sequence[str]) -> CommandLine:
    """The program by the name that `commands` has it under, and its arguments."""
    if argv[0] != sys.executable:
        return CommandLine(argv[0], tuple(argv[1:]))
    if len(argv) > 2 and argv[1] == "-m":
        return CommandLine(argv[2], tuple(argv[3:]))
    return CommandLine(OTHER_PYTHON, tuple(argv[1:]))


def flag_of(argument: str) -> tuple[str, str] | None:
    """Key and value of `--key=value`; None for any other form."""
    found = _FLAG.fullmatch(argument)
    return (normal(found[1]), found[2]) if found else None


def normal(key: str) -> str:
    """A key in one spelling: some parsers take - for _."""
    return key.replace("-", "_")


def lerobot_flags(arguments: Sequence[str]) -> dict[str, str]:
    """Flags of one of LeRobot's programs, which are all that it may be given."""
    flags: dict[str, str] = {}
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        flag = flag_of(argument)
        if flag is None:
            is_pair = argument.startswith("--") and "=" not in argument
            written = f"{argument}={following}" if is_pair else "--key=value"
            raise Denied(
                "commands", f"the argument {argument!r} is no --key=value.", f"Write {written}."
            )
        key, value = flag
        if key in flags:
            raise Denied(
                "commands",
                f"--{key} is given twice, and LeRobot's parsers do not agree which one counts.",
                "Give it once.",
            )
        refuse_inclusion(key, value)
        flags[key] = value
    return flags


def flags_as_given(arguments: Sequence[str]) -> dict[str, str]:
    """Flags that a person typed, with an = or a space; of several for one key the last counts."""
    flags: dict[str, str] = {}
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        key, equals, value = argument.removeprefix("--").partition("=")
        if argument.startswith("--") and key:
            flags[normal(key)] = value if equals else following
    return flags


def refuse_inclusion(key: str, value: str) -> None:
    """Refuse a value that draccus replaces with the content of a file.

    It takes every value for YAML, and text that begins with `include` for the name of a file.
    """
    if _PLAIN.fullmatch(value) or not value:
        return
    try:
        text = _yaml(value)
    except ValueError as error:
        raise Denied(
            "commands", f"the value of --{key} is no plain YAML: {value!r}.", "Write it plainly."
        ) from error
    if isinstance(text, str) and text.startswith("include"):
        raise Denied(
            "config_paths",
            f"--{key}={value} would read another file in its place.",
            "Write the value itself.",
        )


def require_literal(key: str, value: str) -> None:
    """Refuse a name that YAML would read as something else than it says."""
    is_cut = " #" in value or ": " in value or value.endswith(":") or value != value.strip()
    if is_cut or not _PLAIN.fullmatch(value) or value.lower() in _YAML_WORDS:
        raise Denied(
            "commands",
            f"--{key}={value!r} is not a plain name, and LeRobot may read it as another one.",
            "Write the name without quotes, ' #' and ': '.",
        )


def _yaml(value: str) -> Any:
    """The value as draccus reads it, without its own tags, which raise ValueError."""
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        import yaml

    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ValueError(value) from error


def flattened(content: Any, prefix: str = "") -> dict[str, str]:
    """A config file as flags: the leaves by their dotted keys; what is unset is left out."""
    if isinstance(content, dict):
        found: dict[str, str] = {}
        for key, value in content.items():
            found |= flattened(
                value, f"{prefix}.{normal(str(key))}" if prefix else normal(str(key))
            )
        return found
    if content is None:
        return {}
    if isinstance(content, bool):
        return {prefix: str(content).lower()}
    return {prefix: content if isinstance(content, str) else msgspec.json.encode(content).decode()}
