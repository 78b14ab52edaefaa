"""What the loop asks of an executor. A *body* is the process that carries out a stage."""

from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from lefleet.stages.folder import is_locked


class BodyState(NamedTuple):
    """How a body is at this moment."""

    phase: Literal["waiting", "running", "silent", "ended"]
    """waiting: it has not started, because nothing is free for it. silent: nobody who knows of it
    answers; it may be at work."""
    code: int = 0
    """Exit code of one that has ended, negative after a signal; 0 where it is not known."""
    words: str = ""
    """How it ended, what it waits for, or who does not answer."""


class StageBody(Protocol):
    """A body that was found or started."""

    def look(self) -> BodyState: ...


class Executor(Protocol):
    """Starts, finds and ends bodies. Every method may be called by another controller than the one
    that started a body: all that is known is in the stage's folder, or the executor can ask."""

    def find(self, folder: Path) -> StageBody | None:
        """The body that works in `folder`, or will; None where there is none. ClusterUnreachable
        where that cannot be known."""

    def clear(self, folder: Path) -> None:
        """End what is left of earlier bodies, and see it gone, before the next one starts."""

    def start(self, folder: Path, stage: str, attempt: int) -> StageBody:
        """Start the stage whose request lies in `folder`. Denied where the rules of this process do
        not allow it; ClusterUnreachable where it may not have been started."""

    def cancel(self, folders: set[Path]) -> None:
        """Ask the bodies in these folders to end, then make them. One that cannot be reached, on a
        node that is lost, can commit nothing any more."""


class EndedBody:
    """One that never came to work."""

    def __init__(self, words: str) -> None:
        self._state = BodyState("ended", words=words)

    def look(self) -> BodyState:
        return self._state


class LockedBody:
    """A body that is known by the lock that it holds, whoever started it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def look(self) -> BodyState:
        if is_locked(self._folder):
            return BodyState("running")
        return BodyState("ended", words="exited without a record")
