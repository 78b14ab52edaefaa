"""Start a child process that dies with its parent and keeps to one thread."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from lefleet.errors import StageFailed

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

Stream = IO[bytes] | int | None


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of every child.

    One thread each: two torch threads on busy cores make every update 5 to 10 times slower, and
    our processes already use all cores. What the user set stays.
    """
    environment = dict(os.environ)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        environment.setdefault(name, "1")
    environment.setdefault("TOKENIZERS_PARALLELISM", "false")
    environment["PYTHONUNBUFFERED"] = "1"
    environment.update(extra or {})
    return environment


def launch(
    argv: Sequence[str],
    *,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = None,
    stderr: Stream = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    detached: bool = False,
) -> subprocess.Popen[bytes]:
    """Start `argv`.

    The child gets SIGKILL when the thread that called this ends, so call it from the main thread.
    A `detached` one lives on in a session of its own.
    """
    parent = os.getpid()

    def die_with_parent() -> None:
        if _LIBC is None:
            return
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=child_environment(environment),
            preexec_fn=None if detached else die_with_parent,  # noqa: PLW1509
            start_new_session=detached,
        )
    except OSError as error:
        raise StageFailed(f"Could not start {argv[0]}: {error.strerror}.") from error


def stop(process: "subprocess.Popen[bytes]", grace_s: float = 5.0) -> None:
    """Ask the child to end, then make it."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
