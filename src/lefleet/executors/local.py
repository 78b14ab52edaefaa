"""Bodies as processes of this machine: found by their lock, ended by their mark."""

import os
import signal
import subprocess
import time
from pathlib import Path

from lefleet.cluster.fence import close_fence
from lefleet.errors import StageFailed
from lefleet.executors.seam import BodyState, LockedBody, StageBody
from lefleet.process import exit_words, oom_kills, processes_marked
from lefleet.stages.folder import is_locked
from lefleet.stages.run import POLL_S, STAGE_MARK, start

GRACE_S = 10.0
"""How long a process may take to exit after SIGTERM."""


class LocalExecutor:
    """Starts each body in a session of its own, so that it outlives its controller."""

    def find(self, folder: Path) -> StageBody | None:
        return LockedBody(folder) if is_locked(folder) else None

    def clear(self, folder: Path) -> None:
        end_processes({folder}, signal.SIGKILL)

    def start(self, folder: Path, stage: str, attempt: int) -> StageBody:  # noqa: ARG002
        # A job that a cluster has not started yet must not begin beside this one.
        close_fence(folder)
        return ChildBody(start(folder, detached=True))

    def cancel(self, folders: set[Path]) -> None:
        try:
            end_processes(folders, signal.SIGTERM)
        except StageFailed:
            end_processes(folders, signal.SIGKILL)


class ChildBody:
    """A body that this process has started."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._oom_kills = oom_kills()

    def look(self) -> BodyState:
        code = self._process.poll()
        if code is None:
            return BodyState("running")
        words = exit_words(code, self._oom_kills) if code else "exited without a record"
        return BodyState("ended", code, words)


def end_processes(folders: set[Path], how: signal.Signals) -> None:
    """Signal every process on this machine that belongs to the stages in `folders`, and see them
    gone."""
    deadline = time.monotonic() + GRACE_S
    names = {str(folder) for folder in folders}
    while marked := {p: name for p, name in processes_marked(STAGE_MARK).items() if name in names}:
        for pid in marked:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            pid, name = next(iter(marked.items()))
            raise StageFailed(
                f"Process {pid} of {name} does not end.", "End it by hand, then resume the run."
            )
        time.sleep(POLL_S / 2)
