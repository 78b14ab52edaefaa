"""The same host and slower links, each in network namespaces of its own.

Traffic never leaves them, so their counters count nothing else. A link's two ends also have a
/dev/shm each, as two machines do: otherwise Zenoh would go past the link. Needs root; without it
there is only the same host, on the loopback that everybody uses.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

_SERVER = "10.77.0.1"
_ROBOTS = "10.77.0.2"
# Bytes that may pass at full speed after a pause: few, because a network card lets none.
_BURST = {"1gbit": "32kb", "100mbit": "8kb"}
_QUEUE = "8mb"


class End(NamedTuple):
    """One side of a link: how to start a process there, and what it sees."""

    prefix: tuple[str, ...]
    host: str
    device: str


class Link(NamedTuple):
    """Where the server and the robots are."""

    title: str
    server: End
    robots: End


def can_shape() -> bool:
    """Whether namespaces and shaped links can be made here."""
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "tc", "mount")))


@contextmanager
def same_host() -> Iterator[Link]:
    """Server and robots on one host."""
    if not can_shape():
        end = End((), "127.0.0.1", "lo")
        yield Link("same host", end, end)
        return
    with ExitStack() as cleanup:
        space = _namespace(cleanup, "h")
        # Shared by both, and removed afterwards: killed processes leave their segments behind.
        memory = Path("/dev/shm", space)  # noqa: S108
        memory.mkdir()
        cleanup.callback(shutil.rmtree, memory)
        end = _end(space, "127.0.0.1", "lo", f"--bind {memory}")
        yield Link("same host", end, end)


@contextmanager
def shaped(rate: str, title: str) -> Iterator[Link]:
    """Server and robots on two hosts with a cable between them; `rate` both ways, no delay."""
    with ExitStack() as cleanup:
        here, there = _namespace(cleanup, "s"), _namespace(cleanup, "r")
        device = f"v{os.getpid()}"
        _run("ip", "link", "add", device, "netns", here, "type", "veth", "peer", "name", device,
             "netns", there)  # fmt: skip
        for space, host in ((here, _SERVER), (there, _ROBOTS)):
            _run("ip", "-n", space, "addr", "add", f"{host}/24", "dev", device)
            _run("ip", "-n", space, "link", "set", device, "up")
            _run("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", device, "root", "tbf",
                 "rate", rate, "burst", _BURST[rate], "limit", _QUEUE)  # fmt: skip
        own = "-t tmpfs tmpfs"
        yield Link(title, _end(here, _SERVER, device, own), _end(there, _ROBOTS, device, own))


def _end(space: str, host: str, device: str, memory: str) -> End:
    """Processes in this namespace see `memory` as their /dev/shm."""
    script = f'mount {memory} /dev/shm && exec "$@"'
    return End(("ip", "netns", "exec", space, "sh", "-c", script, "sh"), host, device)


def _namespace(cleanup: ExitStack, suffix: str) -> str:
    name = f"lefleet-{os.getpid()}{suffix}"
    _run("ip", "netns", "add", name)
    cleanup.callback(_run, "ip", "netns", "del", name)
    _run("ip", "-n", name, "link", "set", "lo", "up")
    return name


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
