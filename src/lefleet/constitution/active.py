"""The rules that this process keeps to: installed in it, handed down by its parent, or found.

`launch()` asks for them before it starts anything, and hands those that were installed or handed
down on to the child in one environment variable, whatever the variable was before. So all
processes of a run have the rules that its controller installed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lefleet.constitution.grants import Grants
from lefleet.constitution.rules import Rules, require_digest, rules_for_grants
from lefleet.constitution.schema import find
from lefleet.errors import BadInput, Denied

RULES_VARIABLE = "LEFLEET_RULES"
"""Digest and JSON of the rules of a child's parent, with a colon between them."""
FROZEN = "constitution.json"
"""In a run's folder: the rules that hold, for people; no program reads it."""
WORKDIR = Path("runs")
_LONGEST = 120_000
"""Bytes; Linux does not start a program with a longer variable."""

_installed: Rules | None = None


def install(rules: Rules, folder: Path | None = None) -> None:
    """Make these the rules of this process and of all that it starts from now on.

    They are also written to `folder`, for people.
    """
    global _installed  # noqa: PLW0603 - a process has one set of rules
    _encoded(rules)
    if folder is not None:
        partial = folder / f"{FROZEN}.partial"
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(rules), indent=2) + b"\n")
        partial.replace(folder / FROZEN)
    _installed = rules


@contextmanager
def installed(rules: Rules) -> Iterator[None]:
    """Install rules for a while; those from before hold again afterwards."""
    global _installed  # noqa: PLW0603
    before = _installed
    install(rules)
    try:
        yield
    finally:
        _installed = before


def active() -> Rules:
    """The rules of this process."""
    return given() or rules_for_grants(find(WORKDIR), Grants())


def given() -> Rules | None:
    """The rules that were installed here, else those that this process was started with, if any;
    Denied where these were changed on the way."""
    if _installed is not None:
        return _installed
    text = os.environ.get(RULES_VARIABLE)
    if not text:
        return None
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


def handed_down() -> dict[str, str]:
    """The variable for a child; none where it finds the rules as this process did."""
    rules = given()
    return {} if rules is None else {RULES_VARIABLE: _encoded(rules)}


def forget_handed_down() -> None:
    """In a command that a person typed: what the shell's variable says does not count."""
    os.environ.pop(RULES_VARIABLE, None)


def _encoded(rules: Rules) -> str:
    text = f"{rules.digest}:{msgspec.json.encode(rules).decode()}"
    if len(text.encode()) > _LONGEST:
        raise BadInput(
            f"constitution: with what the run's config names it has more than {_LONGEST} bytes.",
            "Shorten it, for instance with patterns such as lerobot/*.",
        )
    return text
