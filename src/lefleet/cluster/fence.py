"""The fence of a stage's folder: which body may write there, when a body cannot be seen to be dead.

On one machine a body that was killed is seen to be dead before the next one starts. A node that is
lost, or a cluster whose head has forgotten its jobs, cannot be asked. So whoever submits a body
first writes a token to the folder, durably, and a body that was started with another one neither
appends to a journal nor commits. Bodies on this machine have no token and are not asked for one.
"""

import os
from pathlib import Path
from secrets import token_hex
from typing import Self

import msgspec

from lefleet.durable import write_durably
from lefleet.errors import StageFailed
from lefleet.records import decode, encode
from lefleet.records.border import Strict

FENCE = "fence.json"
TOKEN = "LEFLEET_FENCE"  # noqa: S105
"""Environment variable of a fenced body and its descendants: the token that it was started with."""


class Outdated(StageFailed):
    """Another attempt has taken over the folder; this body must not write to it."""


class Fence(Strict, frozen=True, kw_only=True):
    """Who may write to a folder, and what that body needs to know."""

    token: str
    submission: str = ""
    """Id of the job on the cluster; empty: no job may write here."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    """Of the body."""

    @classmethod
    def closed(cls) -> Self:
        """A fence that lets no submitted body in."""
        return cls(token=token_hex(8))


def read_fence(folder: Path) -> Fence | None:
    """None where no body of this folder was ever submitted to a cluster."""
    try:
        return decode((folder / FENCE).read_bytes(), Fence, str(folder / FENCE))
    except FileNotFoundError:
        return None


def write_fence(folder: Path, fence: Fence) -> None:
    """From now on only the body with this token may write. For this user alone: it holds
    variables."""
    write_durably(folder / FENCE, encode(fence), 0o600)


def close_fence(folder: Path) -> None:
    """Let no submitted body write to `folder` any more, where one ever was."""
    if (folder / FENCE).exists():
        write_fence(folder, Fence.closed())


def is_current(folder: Path, token: str) -> bool:
    """Whether a body with this token may still write. A folder that cannot be read is no reason to
    end a body: it will fail, or the disk will come back."""
    try:
        fence = read_fence(folder)
    except OSError:
        return True
    return fence is not None and fence.token == token


def require_current(folder: Path) -> None:
    """Raise Outdated where this process has a token, and it is not the one of `folder`."""
    token = os.environ.get(TOKEN)
    if token and not is_current(folder, token):
        raise Outdated(f"A later attempt has taken over {folder}; this one wrote nothing more.")
