"""Run a child's program in a fork of this process, which may have its modules loaded already.

Importing LeRobot takes 5 to 10 s; a process that has imported it starts a copy of itself in a few
milliseconds. The copy differs from a new program in nothing that others rely on: it has its own
command line and environment, in /proc too, its own session or parent-death signal, default
signals, no descriptor of its parent but the three that it was given, so that it holds no lock, and
neither its parent's unwritten output nor what its parent will do when it exits.
"""

import atexit
import ctypes
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

_PROGRAMS = {
    "lefleet": "lefleet.cli",
    "lefleet.rollouts.worker": "lefleet.rollouts.worker",
    "lefleet.compat.train": "lefleet.compat.train",
    "lefleet.trial.film": "lefleet.trial.film",
    "lefleet.trial.robot": "lefleet.trial.robot",
    "lerobot.scripts.lerobot_train": "lerobot.scripts.lerobot_train",
}
"""Modules whose `main` a fork may run, by the name in `python -m NAME`."""
_EXIT_FUNCTIONS = (("logging", "shutdown"), ("multiprocessing.util", "_exit_function"))
"""What modules that are imported already would do at the end of a new program."""
_OWN = "LEFLEET_"
_PR_SET_MM, _PR_SET_MM_MAP = 35, 14
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_is_allowed = False
_proc_text: list[object] = []
"""The memory that /proc/self/cmdline and /proc/self/environ show."""


def allow_forks() -> None:
    """Let `launch` fork this process. Only for processes of LeFleet's own: a user's may have a GPU
    in use, or threads that come and go."""
    global _is_allowed  # noqa: PLW0603
    _is_allowed = True


def can_fork(argv: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a fork of this process can stand for `argv` with `environment`.

    Libraries read variables when they are imported, so all but LeFleet's own must be set here too.
    """
    is_program = len(argv) > 2 and (argv[0], argv[1]) == (sys.executable, "-m")
    if not _is_allowed or not is_program or argv[2] not in _PROGRAMS:
        return False
    here = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    there = {name: value for name, value in environment.items() if not name.startswith(_OWN)}
    return here == there and not obstacle()


def obstacle() -> str:
    """Why this process cannot be forked, or an empty string."""
    if _LIBC is None:
        return "this is not Linux"
    if threads := len(list(Path("/proc/self/task").iterdir())) - 1:
        return f"this process has {threads} threads beside its main one"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "this process uses a GPU"
    try:
        _set_memory_map(_memory_map())
    except OSError as error:
        return f"the kernel does not let a process change its command line ({error.strerror})"
    return ""


def become(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """In the forked child: be `python -m NAME ARGUMENTS…` to its end, as Python would run it."""
    code = 1
    try:
        _forget_parent()
        _show(argv, environment)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv, sys.orig_argv = [argv[2], *argv[3:]], list(argv)
        # subprocess has switched it off for the time between fork and exec.
        gc.enable()
        code = _run(_PROGRAMS[argv[2]])
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _run(name: str) -> int:
    """The exit code of a program."""
    try:
        module = import_module(name)
        # What a process that this one spawns imports first.
        sys.modules["__main__"] = module
        sys.exit(module.main())
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    return 1


def _forget_parent() -> None:
    """Give up output, exit functions, descriptors and signal handlers, and draw other random
    numbers than the parent."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    _drop_output(nothing)
    _drop_exit_functions()
    for entry in list(Path("/proc/self/fd").iterdir()):
        # The numbers stay in use: an object of the parent that closes one must not close ours.
        if int(entry.name) > 2 and int(entry.name) != nothing:
            os.dup2(nothing, int(entry.name), inheritable=False)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            is_interrupt = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)
    # subprocess has set these to their defaults; a Python program ignores them.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _drop_output(nothing: int) -> None:
    """The parent writes what is in its buffers itself."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        kept = os.dup(number)
        os.dup2(nothing, number)
        stream.flush()
        os.dup2(kept, number)
        os.close(kept)


def _drop_exit_functions() -> None:
    """What the parent cleans up at its end, such as a temporary folder, is still in use."""
    atexit._clear()  # noqa: SLF001
    finalizers = weakref.finalize
    finalizers._registry.clear()  # type: ignore[attr-defined]  # noqa: SLF001
    finalizers._registered_with_atexit = False  # type: ignore[attr-defined]  # noqa: SLF001
    for name, function in _EXIT_FUNCTIONS:
        if name in sys.modules:
            atexit.register(getattr(sys.modules[name], function))


class _MemoryMap(ctypes.Structure):
    """struct prctl_mm_map of Linux."""

    _fields_ = (
        *(
            (name, ctypes.c_uint64)
            for name in (
                *("start_code", "end_code", "start_data", "end_data", "start_brk", "brk"),
                *("start_stack", "arg_start", "arg_end", "env_start", "env_end", "auxv"),
            )
        ),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


def _memory_map() -> _MemoryMap:
    """This process's own, from /proc/self/stat; fields count from 3 after the name."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    names = {26: "start_code", 27: "end_code", 28: "start_stack", 45: "start_data", 46: "end_data"}
    names |= {47: "start_brk", 48: "arg_start", 49: "arg_end", 50: "env_start", 51: "env_end"}
    found = _MemoryMap(**{name: int(fields[number - 3]) for number, name in names.items()})
    sbrk = ctypes.CDLL(None).sbrk
    sbrk.restype, sbrk.argtypes = ctypes.c_void_p, [ctypes.c_long]
    found.brk = sbrk(0)
    found.exe_fd = 2**32 - 1
    return found


def _set_memory_map(wanted: _MemoryMap) -> None:
    size = ctypes.sizeof(wanted)
    if _LIBC is None or _LIBC.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(wanted), size, 0):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _show(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Make /proc/self/cmdline and /proc/self/environ what exec would have made them.

    Both are the process's own memory. The mark of a stage is found there.
    """
    variables = (f"{name}={value}" for name, value in environment.items())
    texts = [b"".join(os.fsencode(one) + b"\0" for one in part) for part in (argv, variables)]
    arguments, shown = (ctypes.create_string_buffer(text, len(text)) for text in texts)
    _proc_text[:] = [arguments, shown]
    changed = _memory_map()
    changed.arg_start = ctypes.addressof(arguments)
    changed.arg_end = changed.arg_start + len(arguments)
    changed.env_start = ctypes.addressof(shown)
    changed.env_end = changed.env_start + len(shown)
    _set_memory_map(changed)
