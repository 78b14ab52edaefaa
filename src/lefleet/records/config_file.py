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


def read_fields(path: Path, name: str, example: str) -> dict[str, Any]:
    """The fields in a YAML file; `name` and `example` are for the error message."""
    try:
        raw = yaml.safe_load(path.read_bytes())
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


def converted[T](raw: dict[str, Any], kind: type[T], source: str) -> T:
    """The fields as `kind`; a mistake names the field, and what it may be instead."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        problem = as_bad_input(error, source).problem
        raise BadInput(problem, _remedy(str(error), kind)) from error


def _remedy(text: str, kind: type) -> str:
    """What msgspec leaves out: the values of a choice, or the names of fields."""
    where = _PLACE.search(text)
    places = _places(kind, _STEP.findall(where[1]) if where else [])
    values = [value for place in places for value in getattr(place, "values", ())]
    if "Invalid enum value" in text and values:
        return f"Use {_listed([str(value) for value in values])}."
    fields = [one.encode_name for place in places for one in getattr(place, "fields", ())]
    unknown = _UNKNOWN.search(text)
    if unknown and fields:
        near = get_close_matches(unknown[1].replace("-", "_"), fields, 1)
        meant = f"Did you mean {near[0]}? " if near else ""
        return f"{meant}There are {', '.join(fields)}."
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
