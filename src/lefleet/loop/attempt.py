"""A stage process: launch it, or attach to one that is running.

What is found in the stage's folder decides, not what anybody remembers. A record is taken. A held
lock means that the stage is running, whoever started it. Otherwise what is left of the last
process is killed, and seen to be dead, before the next one starts; so two bodies of a stage never
run at the same time. A record or a process of another request is refused.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from lefleet.errors import StageFailed
from lefleet.process import processes_marked
from lefleet.records import Record, Request
from lefleet.stages.child import FAILURE, POLL_S, STAGE_MARK, read_failure, start
from lefleet.stages.folder import StageFolder, committed, is_locked, require_request

GRACE_S = 10.0
"""How long a process has to end after it was asked to."""


class Ending(NamedTuple):
    """Why a stage must end."""

    kind: Literal["stop", "budget", "hang"]
    reason: str


class Cancelled(Exception):
    """The stage was made to end."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


class Gone(Exception):
    """The stage's process ended without a word: it was killed, or the machine was."""


def carry_out(
    request: Request,
    folder: Path,
    *,
    must_end: Callable[[], Ending | None],
    on_launch: Callable[[], None],
) -> Record:
    """The record of a stage.

    `must_end` is asked a few times a second whether, and why, the stage must end.
    `on_launch` is called before a process is started, and not when one is attached to.
    """
    if (record := committed(folder, request)) is not None:
        return record
    process: subprocess.Popen[bytes] | None = None
    if is_locked(folder):
        require_request(folder, request)
    else:
        end_leftovers(folder, signal.SIGKILL)
        with StageFolder(folder, request):
            pass
        on_launch()
        process = start(folder, detached=True)
    while is_locked(folder) if process is None else process.poll() is None:
        if (ending := must_end()) is not None:
            if (record := break_off(request, folder)) is not None:
                return record
            raise Cancelled(ending)
        time.sleep(POLL_S)
    if (record := committed(folder, request)) is not None:
        return record
    code = process.returncode if process is not None else 0
    if (folder / FAILURE).exists() or code > 0:
        raise read_failure(folder, code)
    raise Gone(f"killed by signal {-code}" if code else "ended while nobody was looking")


def break_off(request: Request, folder: Path) -> Record | None:
    """End a stage, whether it is running or not; its record, where it came to one."""
    if (record := committed(folder, request)) is None:
        cancel(folder)
        record = committed(folder, request)
    return record


def cancel(folder: Path) -> None:
    """Ask the stage and its children to end, then make them."""
    try:
        end_leftovers(folder, signal.SIGTERM)
    except StageFailed:
        end_leftovers(folder, signal.SIGKILL)


def end_leftovers(folder: Path, how: signal.Signals) -> None:
    """Signal every process that belongs to the stage in `folder`, and see them gone."""
    deadline = time.monotonic() + GRACE_S
    while pids := processes_marked(STAGE_MARK, str(folder)):
        for pid in pids:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise StageFailed(
                f"Process {pids[0]} of {folder} does not end.",
                "End it by hand, then resume the run.",
            )
        time.sleep(POLL_S / 2)
