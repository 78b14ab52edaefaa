"""Where bytes become structs and back; a mistake is an error that names the field."""

import re
from typing import Any

import msgspec

from lefleet.errors import BadInput

_FIELD = re.compile(r" - at `\$?\.?(?P<field>[^`]*)`")


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all requests and records. The type's tag travels as `kind`."""


def decode(data: bytes | str, kind: Any, source: str) -> Any:
    """JSON to `kind`; `source` names the file or flag for the error message."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise as_bad_input(error, source) from error


def encode(record: Any) -> bytes:
    """Struct to indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def validated[T](value: T) -> T:
    """`value` itself if every field keeps its constraints; constructors do not check them."""
    try:
        return msgspec.convert(msgspec.to_builtins(value), type=type(value))
    except msgspec.MsgspecError as error:
        raise as_bad_input(error) from error


def as_bad_input(error: msgspec.MsgspecError, source: str = "") -> BadInput:
    """A decoding error, with the field and its source in front."""
    text = str(error)
    where = _FIELD.search(text)
    problem = _FIELD.sub("", text)
    if where and where["field"]:
        problem = f"{where['field']}: {problem}"
    return BadInput(f"{source}: {problem}." if source else f"{problem}.")
