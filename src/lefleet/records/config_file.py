"""Config files: YAML, and `--a.b=c` on top of it, before anything is decoded."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import inspect

from lefleet.errors import BadInput
from lefleet.records.border import as_bad_input

_PLACE = re.compile(r"at `\$\.?([^`]*)`")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_STEP = re.compile(r"[^.\[\]]+|\[[^]]*\]")


class _OnceEach(yaml.SafeLoader):
    """Refuses a field that is there twice: the second would silently replace the first."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the field {key.value} is there twice", key.start_mark
                )
            seen.add(key.value if isinstance(key.value, str) else None)
        return super().construct_mapping(node, deep)


def read_fields(path: Path, name: str, example: str) -> dict[str, Any]:
    """The fields in a YAML file; `name` and `example` are for the error message."""
    try:
        raw = yaml.load(path.read_bytes(), _OnceEach)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise BadInput(f"{name}: {path} cannot be read: {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise BadInput(f"{name}: {path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(raw, dict):
        raise BadInput(f"{name}: {path} must hold fields and values.", f"See {example}.")
    return raw


def merge(raw: dict[str, Any], overrides: Sequence[str]) -> None:
    """Put `--a.b=c` into the fields; of several for one field the last counts."""
    for override in overrides:
        _merge_one(raw, override)


def _merge_one(raw: dict[str, Any], override: str) -> None:
    key, equals, value = override.removeprefix("--").partition("=")
    if not override.startswith("--") or not equals:
        raise BadInput(f"{override}: not an override.", "Write it as --key=value.")
    *path, last = key.split(".")
    for name in path:
        if raw.get(name) is None:
            raw[name] = {}
        raw = raw[name]
        if not isinstance(raw, dict):
            raise BadInput(
                f"{key}: {name} has no fields.", f"Give all of it: --{name}=VALUE, as YAML."
            )
    try:
        raw[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise BadInput(f"{key}: {value!r} is not a YAML value.") from error


def converted[T](
    raw: dict[str, Any], kind: type[T], source: str, overrides: Sequence[str] = ()
) -> T:
    """The fields as `kind`; a mistake names the field and its source, the file or the flag, and
    what the field may be instead."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        where = _PLACE.search(text)
        place = where[1] if where else ""
        unknown = _UNKNOWN.search(text)
        name = ".".join(filter(None, (place, unknown[1] if unknown else "")))
        flag = _flag_of(name, overrides)
        if unknown:
            problem, remedy = f"there is no field {name}.", _near(unknown[1], place, kind, flag)
        else:
            problem, remedy = as_bad_input(error).problem, _choice(text, place, kind)
        origin = flag or source
        problem = problem.removeprefix(f"{flag.removeprefix('--')}: ") if flag else problem
        raise BadInput(f"{origin}: {problem}" if origin else problem, remedy) from error


def _flag_of(name: str, overrides: Sequence[str]) -> str:
    """The flag that set this field, a part of it, or the whole that it is in."""
    for flag in reversed([one.partition("=")[0] for one in overrides]):
        key = flag.removeprefix("--")
        if key == name or key.startswith(f"{name}.") or name.startswith((f"{key}.", f"{key}[")):
            return flag
    return ""


def _near(unknown: str, place: str, kind: type, flag: str) -> str:
    """The field that was probably meant, as it would be written; else all that there are."""
    places = _places(kind, _STEP.findall(place))
    fields = [field for one in places for field in getattr(one, "fields", ())]
    known, name = [field.encode_name for field in fields], unknown.replace("-", "_")
    inside = [
        f"{field.encode_name}.{name}"
        for field in fields
        for one in _choices(field.type)
        if _inside(one, name) is not None and isinstance(one, inspect.StructType)
    ]
    meant = [*get_close_matches(name, known, 1), *inside]
    if not meant:
        return f"There are {', '.join(known)}."
    before = f"{place}." if place else ""
    rest = flag.removeprefix(f"--{before}{unknown}") if flag else ""
    return f"Did you mean {'--' if flag else ''}{before}{meant[0]}{rest}?"


def _choice(text: str, place: str, kind: type) -> str:
    """What msgspec leaves out: the values of a choice."""
    places = _places(kind, _STEP.findall(place))
    values = [value for one in places for value in getattr(one, "values", ())]
    if "Invalid enum value" in text and values:
        return f"Use {_listed([str(value) for value in values])}."
    return ""


def _places(kind: type, steps: list[str]) -> list[Any]:
    """The types that a path of fields leads to; several where the type is a choice."""
    places = _choices(inspect.type_info(kind))
    for step in steps:
        inside = [_inside(place, step) for place in places]
        places = [one for found in inside if found is not None for one in _choices(found)]
    return places


def _choices(place: inspect.Type) -> list[inspect.Type]:
    if isinstance(place, inspect.Metadata):
        place = place.type
    return list(place.types) if isinstance(place, inspect.UnionType) else [place]


def _inside(place: inspect.Type, step: str) -> inspect.Type | None:
    match place:
        case inspect.StructType():
            return next((one.type for one in place.fields if one.encode_name == step), None)
        case inspect.DictType():
            return place.value_type
        case inspect.VarTupleType() | inspect.ListType():
            return place.item_type
        case _:
            return None


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
