"""Config files: YAML, and `--a.b=c` on top of it, before anything is decoded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from lefleet.errors import BadInput


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
        raw = raw.setdefault(name, {})
        if not isinstance(raw, dict):
            raise BadInput(
                f"{key}: {name} has no fields.", f"Give all of it: --{name}=VALUE, as YAML."
            )
    try:
        raw[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise BadInput(f"{key}: {value!r} is not a YAML value.") from error
