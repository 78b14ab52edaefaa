"""The rules that this process keeps to: installed in it, handed down by its parent, or found.

`launch()` asks for them before it starts anything, and hands those that were installed or handed
down on to the child in one environment variable, whatever the variable was before. So all
processes of a run have the rules that its controller installed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from lefleet.constitution.grants import Grants
from lefleet.constitution.rules import Rules, require_digest, rules_for_grants
from lefleet.constitution.schema import find
from lefleet.errors import BadInput, Denied
from lefleet.records import encode

RULES_VARIABLE = "LEFLEET_RULES"
"""Digest and JSON of the rules of a child's parent, with a colon between them."""
FROZEN = "constitution.json"
"""In a run's folder: the rules that hold, for people; no program reads it."""
WORKDIR = Path("runs")
"""Where rules are looked for if no other work folder is named."""
_LONGEST = 120_000
"""Bytes; Linux does not start a program with a longer variable."""


class _Installed(NamedTuple):
    rules: Rules
    text: str
    """For children."""


_installed: _Installed | None = None


def install(rules: Rules, folder: Path | None = None) -> None:
    """Make these the rules of this process and of all that it starts from now on.

    They are also written to `folder`, for people, if its disk has room.
    """
    global _installed  # noqa: PLW0603 - a process has one set of rules
    made = _Installed(rules, _encoded(rules))
    if folder is not None:
        partial = folder / f"{FROZEN}.partial"
        with suppress(OSError):
            partial.write_bytes(encode(rules))
            partial.replace(folder / FROZEN)
    _installed = made


@contextmanager
def reinstated() -> Iterator[None]:
    """Whatever is installed meanwhile, the rules from before hold again afterwards."""
    global _installed  # noqa: PLW0603
    before = _installed
    try:
        yield
    finally:
        _installed = before


@contextmanager
def installed(rules: Rules) -> Iterator[None]:
    """Install rules for a while."""
    with reinstated():
        install(rules)
        yield


def active() -> Rules:
    """The rules of this process."""
    return given() or rules_for_grants(find(WORKDIR), Grants())


def given() -> Rules | None:
    """The rules that were installed here, else those that this process was started with, if any;
    Denied where these were changed on the way."""
    if _installed is not None:
        return _installed.rules
    text = os.environ.get(RULES_VARIABLE)
    return _decoded(text) if text else None


def handed_down() -> dict[str, str]:
    """The variable for a child; none where the child shall find the rules as this process did."""
    if _installed is not None:
        return {RULES_VARIABLE: _installed.text}
    text = os.environ.get(RULES_VARIABLE)
    return {RULES_VARIABLE: text} if text else {}


def forget_handed_down() -> None:
    """In a command that a person typed: what the shell's variable says does not count."""
    os.environ.pop(RULES_VARIABLE, None)


@lru_cache(maxsize=1)
def _decoded(text: str) -> Rules:
    digest, _, content = text.partition(":")
    try:
        rules = msgspec.json.decode(content, type=Rules)
    except msgspec.MsgspecError as error:
        raise Denied(
            "constitution",
            f"the rules in the variable {RULES_VARIABLE} cannot be read: {error}.",
            f"Unset {RULES_VARIABLE}: only LeFleet sets it.",
        ) from error
    require_digest(rules, digest, f"the rules in the variable {RULES_VARIABLE}")
    return rules


def _encoded(rules: Rules) -> str:
    text = f"{rules.digest}:{msgspec.json.encode(rules).decode()}"
    if len(text.encode()) > _LONGEST:
        raise BadInput(
            f"constitution: with what the run's config names it has more than {_LONGEST} bytes.",
            "Shorten it, for instance with patterns such as lerobot/*.",
        )
    return text
