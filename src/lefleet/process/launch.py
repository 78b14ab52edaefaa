"""Start a child process if the rules allow it; it dies with its parent and keeps to one thread.

Also how a child exited, in words.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from lefleet.constitution import active
from lefleet.constitution.active import RULES_VARIABLE, handed_down
from lefleet.errors import StageFailed
from lefleet.process.fork import become, can_fork

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
    # Arrow's allocator would start a thread on import, and only a process with one can be forked.
    environment.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
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
    inherits: bool = True,
    may_fork: bool = True,
) -> subprocess.Popen[bytes]:
    """Start `argv`: as a new program, or where this process may be forked as a fork that runs it.

    The child gets SIGKILL when the thread that called this ends, so call it from the main thread.
    A `detached` one lives on in a session of its own. One that `inherits` gets this process's
    environment with `environment` put to it, any other exactly `environment`. Without `may_fork` it
    is a new program, which keeps nothing of this process in memory.

    Raises Denied, before anything is started, where the rules of this process do not allow it. A
    child that inherits gets these rules too, whatever its variables said before.
    """
    parent = os.getpid()
    given = dict(environment or {})
    require_allowed(argv, given)
    variables = child_environment(given) if inherits else given
    variables.pop(RULES_VARIABLE, None)
    if inherits:
        variables.update(handed_down())
    is_fork = may_fork and can_fork(argv, variables)

    def before_exec() -> None:
        if not detached:
            die_with(parent)
        if is_fork:
            become(argv, variables)

    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=variables,
            # A fork never leaves this function, so it never gets to exec.
            preexec_fn=None if detached and not is_fork else before_exec,  # noqa: PLW1509
            start_new_session=detached,
        )
    except OSError as error:
        raise StageFailed(f"Could not start {argv[0]}: {error.strerror}.") from error


def die_with(parent: int) -> None:
    """In a child: be killed when the process `parent` ends, also where it has ended already."""
    if _LIBC is None:
        return
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def require_allowed(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Raise Denied where the rules of this process do not allow to start `argv`, here or on another
    machine, with these variables."""
    given = environment or {}
    active().check_argv(argv, [name for name in given if os.environ.get(name) != given[name]])
    # So that a hook which sees all starts of programs can tell those that were checked.
    sys.audit("lefleet.launch", tuple(argv))


def stop(process: "subprocess.Popen[bytes]", grace_s: float = 5.0) -> None:
    """Send SIGTERM, and after `grace_s` SIGKILL."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def exit_words(code: int, oom_kills_before: int) -> str:
    """How a child exited; `oom_kills_before` is `oom_kills()` when it was started."""
    if code >= 0:
        return f"exited with code {code}"
    known = {number.value: number.name for number in signal.Signals}
    name = known.get(-code, f"signal {-code}")
    is_memory = -code == signal.SIGKILL and oom_kills() > oom_kills_before
    return f"was killed by {name}{' (out of memory?)' if is_memory else ''}"


def oom_kills() -> int:
    """How many processes the kernel has killed to free memory, here and in this cgroup."""
    count = 0
    for file in _oom_counters():
        try:
            lines = file.read_text().splitlines()
        except OSError:
            continue
        count += sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return count


def _oom_counters() -> Iterator[Path]:
    yield Path("/proc/vmstat")
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            yield Path(f"/sys/fs/cgroup{group}/memory.events")
        elif controllers == "memory":
            yield Path(f"/sys/fs/cgroup/memory{group}/memory.oom_control")
