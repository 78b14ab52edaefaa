"""What every command has: how to answer, and where runs are."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec


@dataclass(frozen=True, kw_only=True)
class Output:
    """How to answer."""

    json: bool = False
    """Print the result as JSON on stdout; progress goes to stderr."""
    debug: bool = False
    """Show this command's stack trace; a stage's own is in its log.txt."""


@dataclass(frozen=True, kw_only=True)
class RunOutput(Output):
    """Commands about runs."""

    workdir: Path = Path("runs")
    """Folder with the ledger and a folder for every run."""


def print_json(value: Any) -> None:
    """For a program that reads one answer, and for people: indented."""
    _print(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_json_line(value: Any) -> None:
    """For a program that reads answers as they come: one line each."""
    _print(msgspec.json.encode(value))


def _print(text: bytes) -> None:
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.buffer.flush()
