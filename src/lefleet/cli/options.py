"""Arguments that several commands share. Field docstrings are the texts of --help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Every command has these."""

    json: bool = False
    """Print the result as JSON on stdout; progress goes to stderr."""
    debug: bool = False
    """Show the stack trace of an error. A stage's own is in its log.txt."""


@dataclass(frozen=True, kw_only=True)
class WorkdirOptions(OutputOptions):
    """Commands that look up runs."""

    workdir: Path = Path("runs")
    """Folder that holds the ledger and a folder for every run."""


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(WorkdirOptions):
    """Commands about one checkpoint."""

    checkpoint: Annotated[str, Positional, arg(metavar="CHECKPOINT")]
    """RUN (its blessed checkpoint), RUN:CYCLE, blessed (the newest blessed one), a folder, or a hub
    id."""


@dataclass(frozen=True, kw_only=True)
class RestartOptions(OutputOptions):
    """Commands that run one stage."""

    restart: bool = False
    """Start anew: what the folder holds is kept beside it as FOLDER-before-1, FOLDER-before-2, …"""
