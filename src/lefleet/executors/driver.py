"""The program of a cluster's job: starts the stage's body on this node, and watches the fence.

It waits for the folder's lock, which a body of before may hold for some seconds more, and ends what
is left of that body on this node. The body gets the variables that the submitter wrote, whatever
Ray or this node's shell had set. When the fence shows another token, the body is killed.
"""

import signal
import sys
import time
from pathlib import Path
from types import FrameType

from lefleet.cluster.fence import TOKEN, is_current, read_fence
from lefleet.cluster.transfer import settle_in
from lefleet.executors.local import end_processes
from lefleet.process import launch, stop
from lefleet.stages.folder import LOG, is_locked
from lefleet.stages.run import POLL_S, stage_argv

OUTDATED = 75
"""Exit code of a driver that found another token in its folder."""
IN_USE = 76
"""Exit code of a driver whose folder stayed locked."""
GRACE_S = 20.0
"""How long a body may take to exit after SIGTERM."""
_LOOK_EVERY_S = 2.0
_LOCK_WAIT_S = 180.0


class _Stopped(Exception):
    """The cluster asks this job to end."""


def driver_argv(folder: Path, token: str) -> tuple[str, ...]:
    """The command line of a job."""
    return (sys.executable, "-m", "lefleet", "stage", "drive", str(folder), token)


def drive(folder: Path, token: str) -> int:
    """Carry out the stage in `folder` on this node; the exit code is the body's."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        if not _await_turn(folder, token):
            return OUTDATED
        if is_locked(folder):
            sys.stderr.write(f"{folder} is still locked by another process.\n")
            return IN_USE
        return _watch(folder, token)
    except _Stopped:
        return 128 + signal.SIGTERM


def _await_turn(folder: Path, token: str) -> bool:
    """Wait, within a limit, until no other body works in the folder; False once outdated."""
    fence = read_fence(folder)
    if fence is None or fence.token != token:
        sys.stderr.write(f"A later attempt has taken over {folder}.\n")
        return False
    settle_in(fence.environment | {TOKEN: token})
    end_processes({folder}, signal.SIGKILL)
    deadline = time.monotonic() + _LOCK_WAIT_S
    while is_locked(folder) and time.monotonic() < deadline and is_current(folder, token):
        time.sleep(POLL_S)
    return is_current(folder, token)


def _watch(folder: Path, token: str) -> int:
    with (folder / LOG).open("ab") as log:
        body = launch(stage_argv(folder), stdout=log, stderr=log)
    looked = time.monotonic()
    try:
        while (code := body.poll()) is None:
            time.sleep(POLL_S)
            if time.monotonic() - looked > _LOOK_EVERY_S:
                looked = time.monotonic()
                if not is_current(folder, token):
                    body.kill()
                    return OUTDATED
    finally:
        stop(body, GRACE_S)
    if code and not is_current(folder, token):  # The body has seen it first.
        return OUTDATED
    return 128 - code if code < 0 else code


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Stopped
