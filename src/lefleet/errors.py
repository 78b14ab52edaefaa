"""Errors that a person reads: what happened, and what to do about it."""

import os
import stat
from pathlib import Path

MISSING = "does not exist"


class LeFleetError(Exception):
    """Base of every error that ends a command; `exit_code` is the command's."""

    exit_code = 1

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem} {remedy}".strip())
        self.problem = problem
        self.remedy = remedy


class BadInput(LeFleetError):
    """The request cannot be carried out as given; nothing was started or changed."""

    exit_code = 2


class Unknown(BadInput):
    """What was named does not exist."""


class NotInstalled(BadInput):
    """It needs a library that is not on this machine."""


class Denied(LeFleetError):
    """The constitution does not allow it; nothing was started or changed."""

    exit_code = 4

    def __init__(self, rule: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{rule}: {reason}", remedy)
        self.rule = rule
        """Field of the constitution, for instance `caps.steps`."""
        self.reason = reason


class Conflict(LeFleetError):
    """Somebody else did something different in the meantime; nothing was changed."""


class LedgerUnavailable(LeFleetError):
    """The ledger does not answer, has no room or is locked for long, or its server went away during
    a transaction: what that was about to write may be there or not, so read it again before
    anything is repeated."""


class LeaseLost(LeFleetError):
    """Another controller has taken over the run; nothing was written, and nothing can be."""


class ClusterUnreachable(LeFleetError):
    """The cluster does not answer as it should; nothing is known about its jobs."""


class TokenRefused(ClusterUnreachable):
    """The cluster wants another token, or the file with the token cannot be read. In a run that has
    begun, that may be for a while, as when the file is replaced."""


class StageFailed(LeFleetError):
    """A stage started and could not finish; its folder can be resumed."""


class ChildKilled(StageFailed):
    """A signal killed a child process of a stage, for instance because memory ran out."""


def why_not_a_folder(path: str | os.PathLike[str]) -> str:
    """Why a folder cannot be read, as the rest of a sentence about it; empty where it can.

    `MISSING` is said only of what is missing: not of a file, a link to nothing, or a place that
    this user may not look into.
    """
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return "is a link to what does not exist" if Path(path).is_symlink() else MISSING
    except NotADirectoryError:
        return "is inside a file, which is not a folder"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not stat.S_ISDIR(mode):
        return "is a file, not a folder"
    is_readable = os.access(path, os.R_OK | os.X_OK, effective_ids=True)
    return "" if is_readable else "cannot be read: Permission denied"
