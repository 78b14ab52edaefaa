"""Mistakes in a command's arguments, each in a sentence or two that names the flag as written.

The parser's own messages are boxes of ten lines and more. Before it prints one, it announces the
mistake, through a module that may change: so its version is pinned, and a mistake that is unknown
here gets the parser's own message.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from tyro import _errors as mistakes
from tyro.conf import Positional

from lefleet.cli.overview import did_you_mean
from lefleet.errors import BadInput

_EXPECTED = {
    "INT": "a whole number",
    "{None}|INT": "a whole number",
    "FLOAT": "a number",
    "[STR STR [STR STR ...]]": "a list of pairs, as NAME VALUE NAME VALUE",
    "[STR INT [STR INT ...]]": "a list of pairs, as NAME NUMBER NAME NUMBER",
}
"""The parser's names for types."""


def flags(command: type) -> list[str]:
    """A command's flags, with those of its request: --out, --episodes-per-task."""
    found: list[str] = []
    hints = get_type_hints(command, include_extras=True)
    for field in fields(command):
        kind, *notes = _annotated(hints[field.name])
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            found += [_flag(one.name, one.default) for one in msgspec.structs.fields(kind)]
        elif Positional not in notes:
            names = [note.name for note in notes if getattr(note, "name", None)]
            found.append(_flag(names[0] if names else field.name, field.default))
    return found


def _annotated(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


def _flag(name: str, default: Any) -> str:
    return f"--{'no-' if default is True else ''}{name.replace('_', '-')}"


@contextmanager
def plain_mistakes(name: str, command: type, arguments: list[str]) -> Iterator[None]:
    """While the parser runs for the command `name`, a mistake raises `BadInput`."""

    def explain(mistake: mistakes.ParseErrorEvent) -> None:
        if problem := _problem(mistake, name, command, arguments):
            raise BadInput(problem, f"See: lefleet {name} --help") from None

    with mistakes.on_parse_error(explain):
        yield


def _problem(
    mistake: mistakes.ParseErrorEvent, name: str, command: type, arguments: list[str]
) -> str:
    """What is wrong, and what was probably meant; empty for a mistake that is unknown here."""
    match mistake:
        case mistakes.UnrecognizedArgs(tokens=[token, *_]):
            return _unknown(token, name, command, arguments)
        case mistakes.MissingArgs(unrecognized_tokens=[token, *_]) if token.startswith("-"):
            return _unknown(token, name, command, arguments)
        case mistakes.MissingArgs():
            missing = [_shown(one.arg, arguments) for one in mistake.missing_arguments]
            return f"{name} needs {' and '.join(missing)}."
        case mistakes.BadValue(reason="too_few_values"):
            return f"{_shown(mistake.argument, arguments)}: its value is missing."
        case mistakes.InvalidChoice(value=value, choices=choices):
            near = did_you_mean(value, list(choices)) or f"Use {' or '.join(choices)}. "
            return f"{_shown(mistake.argument, arguments)}: {value} is not a choice. {near}".strip()
        case mistakes.InstantiationFailure(argument=argument) if argument is not None:
            shown, metavar = _shown(argument, arguments), argument.lowered.metavar or ""
            if metavar not in _EXPECTED:
                return f"{shown}: {mistake.message.rstrip('.')}."
            return f"{shown}: {_value(shown, arguments)} is not {_EXPECTED[metavar]}."
        case _:
            return ""


def _unknown(token: str, name: str, command: type, arguments: list[str]) -> str:
    """About a flag or word that the command does not have."""
    written, _, _ = token.partition("=")
    if not token.startswith("-"):
        of = next((one for one in arguments if one.partition("=")[2] == token), "")
        flag = of.partition("=")[0]
        return f"{flag}: it takes no value." if flag else f"{name}: unexpected argument {token}."
    known = flags(command)
    flag = written.replace("_", "-")
    if f"--no-{flag.removeprefix('--')}" in known:
        return f"{written}: that is the default. Leave it out."
    return f"{name} has no flag {written}. {did_you_mean(flag, known)}".strip()


def _shown(argument: Any, arguments: list[str]) -> str:
    """A flag as the user wrote it, or as it should be written; of a positional its name."""
    if argument.is_positional():
        return str(argument.lowered.metavar)
    names = argument.lowered.name_or_flags
    written = [one.partition("=")[0] for one in arguments]
    return next((one for one in written if one.replace("_", "-") in names), names[-1])


def _value(flag: str, arguments: list[str]) -> str:
    """What the user gave for a flag."""
    for place, one in enumerate(arguments):
        before, equals, value = one.partition("=")
        if before == flag:
            rest = [value] if equals else arguments[place + 1 :]
            ends = next((n for n, word in enumerate(rest) if word.startswith("--")), len(rest))
            return " ".join(rest[:ends])
    return ""
