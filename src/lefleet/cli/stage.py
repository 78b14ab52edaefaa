"""Run one stage for a person or a script."""

import sys
from pathlib import Path

from lefleet.cli.commands import StageCommand
from lefleet.cli.display import show_progress, show_record
from lefleet.records import Request, encode
from lefleet.stages.child import run_in_child


def run_stage_command(command: StageCommand) -> int:
    """Run the stage as a child process, show how it goes, print what came of it."""
    request: Request = command.request  # type: ignore[attr-defined]
    folder = _absolute(command.out)
    with show_progress(folder.name, as_lines=command.json) as progress:
        record = run_in_child(request, folder, progress)
    if command.json:
        sys.stdout.buffer.write(encode(record))
        sys.stdout.buffer.flush()
    else:
        show_record(record, folder)
    return 0


def _absolute(path: Path) -> Path:
    return path.expanduser().resolve()
