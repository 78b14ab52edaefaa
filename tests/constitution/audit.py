"""Notes every start of a process, in every process of a run, with whether `launch` checked it.

`planted` puts a hook into all Python programs that start from then on, forked or not. The hook
cannot be removed by the program that it watches. Starts that raise no audit event of their own, as
those of multiprocessing, are seen because the one function beneath them is wrapped.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

HOOK = """
import json, os, sys, threading

LOG = {log!r}
STARTS = {{
    "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn",
    "os.system", "pty.spawn", "os.startfile", "fork_exec",
}}
seen = threading.local()


def note(event, program, is_checked):
    frame, stack = sys._getframe(2), []
    while frame is not None:
        stack.append(frame.f_code.co_filename + ":" + frame.f_code.co_name)
        frame = frame.f_back
    line = {{
        "event": event,
        "program": [str(one) for one in program],
        "is_checked": is_checked,
        "by": sys.orig_argv,
        "stage": os.environ.get("LEFLEET_STAGE", ""),
        "stack": stack,
    }}
    file = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (json.dumps(line) + "\\n").encode())
    os.close(file)


def hook(event, details):
    if event == "lefleet.launch":
        seen.checked = list(details[0])
    elif event in STARTS:
        program = details[1] if event == "subprocess.Popen" else details[:1]
        program = [program] if isinstance(program, (str, bytes)) else list(program)
        is_checked = event == "subprocess.Popen" and getattr(seen, "checked", None) == program
        seen.checked, seen.is_in_popen = None, event == "subprocess.Popen"
        note(event, program, is_checked)


sys.addaudithook(hook)
import _posixsubprocess

fork_exec = _posixsubprocess.fork_exec


def noted_fork_exec(*details):
    if not getattr(seen, "is_in_popen", False):
        note("fork_exec", details[0], False)
    seen.is_in_popen = False
    return fork_exec(*details)


_posixsubprocess.fork_exec = noted_fork_exec
sys.modules["diffusers"] = None
"""


class Start(NamedTuple):
    """One start of a process."""

    event: str
    program: list[str]
    is_checked: bool
    """Whether `launch` started it, after the rules allowed it."""
    by: list[str]
    """Command line of the process that started it."""
    stage: str
    """Folder of the stage that this process belongs to; empty for none."""
    stack: list[str]
    """file:function, the innermost first."""


def planted(folder: Path, extra: str = "") -> tuple[Path, dict[str, str]]:
    """The log, and the environment of programs that keep it; `extra` is run in all of them."""
    log = folder / "starts.jsonl"
    (folder / "sitecustomize.py").write_text(HOOK.format(log=str(log)) + extra)
    path = os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))
    return log, {**os.environ, "PYTHONPATH": path}


def starts(log: Path) -> list[Start]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    return [Start(**line) for line in lines]
