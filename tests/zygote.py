"""A process that has imported LeRobot, whose forks stand for the programs that tests start.

A new program spends some seconds on these imports, and tests start hundreds. A fork of the zygote
runs the `main` of the same program, as a fork of a controller does (lefleet.process.fork). Where
the variables of a program differ from the zygote's, libraries might be imported otherwise: then it
is started as a new program.

`python -m tests.zygote FD` serves one socket until its other end is closed.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from lefleet.loop.preload import _MODULES
from lefleet.process.fork import _PROGRAMS, allow_forks, become, obstacle

MODULES = (*_MODULES, "lerobot.policies.act.modeling_act")
_LARGEST = 1 << 20
_OF_A_TEST = ("LEFLEET_", "PYTEST_")
_STANDARD = ("stdin", "stdout", "stderr")


def read_on_import(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that libraries may read when they are imported."""
    return {k: v for k, v in environment.items() if not k.startswith(_OF_A_TEST)}


class Zygote:
    """Starts children for `launch` in this process. One lock guards the socket and the exit codes:
    tests start children in threads too. Nothing is imported before the first child is asked for."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = dict(variables)
        self._lock = threading.Lock()
        self._codes: dict[int, int] = {}
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def popen(self, argv: Sequence[str], **how: Any) -> "subprocess.Popen[bytes] | Child":
        """As `subprocess.Popen`, for what `launch` passes to it."""
        is_same = read_on_import(how["env"]) == read_on_import(self._variables)
        if not is_same or not _imports_lerobot(argv):
            return subprocess.Popen(argv, **how)
        streams = [_Stream(number, how[name]) for number, name in enumerate(_STANDARD)]
        order = {
            "argv": list(argv),
            "env": how["env"],
            "cwd": str(how["cwd"] or Path.cwd()),
            "detached": how["start_new_session"],
        }
        with self._lock:
            zygote = self._connected()
            fds = [one.theirs for one in streams]
            if how["stderr"] == subprocess.STDOUT:
                fds[2] = fds[1]
            socket.send_fds(zygote, [json.dumps(order).encode()], fds)
            while True:
                said, handles = self._said(zygote)
                if handles:
                    break
                self._codes[said["exited"]] = said["code"]
        for one in streams:
            one.hand_over()
        return Child(self, argv, said["pid"], handles[0], *(one.ours for one in streams))

    def code_of(self, pid: int) -> int:
        """Of a child that has exited."""
        with self._lock:
            while pid not in self._codes:
                said, _ = self._said(self._connected())
                self._codes[said["exited"]] = said["code"]
            return self._codes.pop(pid)

    def _said(self, zygote: socket.socket) -> tuple[dict[str, int], list[int]]:
        """A message: of a new child with its handle, or of an exit."""
        message, handles, _, _ = socket.recv_fds(zygote, _LARGEST, 1)
        assert message, "the zygote has exited"
        return json.loads(message), handles

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.zygote", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    env=self._variables,
                    stdin=subprocess.DEVNULL,
                )
            atexit.register(self.close)
        return self._socket

    def close(self) -> None:
        """End it, and the children that are not detached with it."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
            self._socket = None


def _imports_lerobot(argv: Sequence[str]) -> bool:
    """Whether it is a program that a fork can stand for, and saves something by it."""
    if len(argv) < 4 or tuple(argv[:2]) != (sys.executable, "-m"):
        return False
    return argv[3] == "stage" if argv[2] == "lefleet" else argv[2] in _PROGRAMS


class _Stream:
    """One of a child's standard streams: the descriptor that it gets, and our end of a pipe."""

    def __init__(self, number: int, asked: "IO[bytes] | int | None") -> None:
        self.ours: IO[bytes] | None = None
        self._is_made = True
        if asked == subprocess.PIPE:
            read, write = os.pipe()
            self.theirs = read if number == 0 else write
            self.ours = os.fdopen(write, "wb") if number == 0 else os.fdopen(read, "rb")
        elif asked == subprocess.DEVNULL:
            self.theirs = os.open(os.devnull, os.O_RDWR)
        else:
            self._is_made = False
            given = number if asked in (None, subprocess.STDOUT) else asked
            self.theirs = given if isinstance(given, int) else given.fileno()

    def hand_over(self) -> None:
        if self._is_made:
            os.close(self.theirs)


class Child:
    """What callers of `launch` use of a `subprocess.Popen`."""

    def __init__(
        self,
        zygote: Zygote,
        argv: Sequence[str],
        pid: int,
        handle: int,
        stdin: IO[bytes] | None,
        stdout: IO[bytes] | None,
        stderr: IO[bytes] | None,
    ) -> None:
        self.args, self.pid = argv, pid
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._zygote = zygote
        self._exit = handle

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
        return code

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._exit], [], [], timeout)[0]:
            self.returncode = self._zygote.code_of(self.pid)
            os.close(self._exit)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                stream.close()
        self.wait()


def main() -> None:
    """In the zygote: fork for every order, and tell of every exit."""
    from lefleet.process.launch import die_with

    orders = socket.socket(fileno=int(sys.argv[1]))
    allow_forks()
    for name in MODULES:
        import_module(name)
    gc.freeze()
    assert not obstacle(), obstacle()
    woken, waking = socket.socketpair()
    for end in (woken, waking):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking.fileno())
    running: dict[int, subprocess.Popen[bytes]] = {}
    parent = os.getpid()
    while True:
        ready, _, _ = select.select([orders, woken], [], [])
        if woken in ready:
            woken.recv(4096)
        for pid in [pid for pid, one in running.items() if one.poll() is not None]:
            code = running.pop(pid).returncode
            orders.send(json.dumps({"exited": pid, "code": code}).encode())
        if orders not in ready:
            continue
        message, fds, _, _ = socket.recv_fds(orders, _LARGEST, len(_STANDARD))
        if not message:
            return
        order = json.loads(message)

        def be(order: dict[str, Any] = order) -> None:
            if not order["detached"]:
                die_with(parent)
            become(order["argv"], order["env"])

        made = subprocess.Popen(
            order["argv"],
            **dict(zip(_STANDARD, fds, strict=True)),
            env=order["env"],
            cwd=order["cwd"],
            start_new_session=order["detached"],
            preexec_fn=be,  # noqa: PLW1509 - the zygote has one thread
        )
        running[made.pid] = made
        for fd in fds:
            os.close(fd)
        # Opened before it is reaped: its id cannot be another's yet.
        handle = os.pidfd_open(made.pid)
        socket.send_fds(orders, [json.dumps({"pid": made.pid}).encode()], [handle])
        os.close(handle)


if __name__ == "__main__":
    main()
