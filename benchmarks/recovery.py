"""A server is killed and started again: when is the same client object answered again?"""

import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.report import Section, table
from benchmarks.serving.children import Robots, Server
from benchmarks.serving.links import Link, same_host
from benchmarks.serving.stacks import OURS, STACKS
from benchmarks.serving.targets import Target, target_table
from benchmarks.workshop import Workshop, say

PEERS = ("lerobot", "websocket", "zeromq")
# So long that nearly every kill falls into a request.
POLICY_MS = 50.0
BEFORE_S = 0.5
PATIENCE_S = 5.0


class Crash(NamedTuple):
    """One kill; the first two are None when no reply came in time."""

    from_kill_s: float | None
    from_ready_s: float | None
    restart_s: float
    said: tuple[str, ...]


def measure(workshop: Workshop) -> Section:
    crashes = {}
    with same_host() as link:
        for stack in (*PEERS, OURS):
            folder = workshop.folder / "recovery" / stack
            folder.mkdir(parents=True)
            count = 3 if stack == OURS and not workshop.quick else 1
            crashes[stack] = [_crash(stack, link, folder) for _ in range(count)]
            say(f"{STACKS[stack].title} is done")
    ours = [crash.from_ready_s for crash in crashes[OURS]]
    worst = max(PATIENCE_S if seconds is None else seconds for seconds in ours)
    header = ("stack", "after the new server was ready", "after the kill", "what it said meanwhile")
    return Section(
        "the first reply to the same client object after a server's SIGKILL and restart",
        (
            table(header, (_row(stack, found) for stack, found in crashes.items())),
            target_table([Target("LeFleet, after the new server was ready", 1.0, worst, " s")]),
        ),
        (
            f"The policy takes {POLICY_MS:g} ms, so that the server dies in mid-request; it is",
            "started again at once on the same port. The robot asks on and on and ignores errors.",
            f"never: no reply within {PATIENCE_S:g} s of the new server's being ready; only a new",
            "client object helps. ZeroMQ's client was given a time-out of 2 s for a reply: without",
            f"one it waits without end. LeFleet: median (worst) of {len(ours)} kills.",
        ),
    )


def _crash(stack: str, link: Link, folder: Path) -> Crash:
    with closing(Server(stack, link.server, folder, policy_ms=POLICY_MS)) as first:
        first.wait_ready()
        with closing(Robots(stack, first.address, link.robots, folder)) as robots:
            robots.wait_ready()
            robots.order("watch", until_file=str(folder / "stop"))
            time.sleep(BEFORE_S)
            killed = time.monotonic()
            first.kill()
            second = Server(stack, link.server, folder, port=first.port, policy_ms=POLICY_MS)
            with closing(second):
                ready = second.wait_ready()
                time.sleep(max(0.0, ready + PATIENCE_S - time.monotonic()))
                (folder / "stop").touch()
                seen = robots.answer(2 * PATIENCE_S)
                (folder / "stop").unlink()
    again = next((instant for instant in seen["good"] if instant > ready), None)
    said = tuple(dict.fromkeys(text for instant, text in seen["bad"] if instant > killed))
    return Crash(
        None if again is None else again - killed,
        None if again is None else again - ready,
        ready - killed,
        said,
    )


def _row(stack: str, crashes: list[Crash]) -> tuple[str, ...]:
    said = dict.fromkeys(text for crash in crashes for text in crash.said)
    return (
        STACKS[stack].title,
        _seconds([crash.from_ready_s for crash in crashes]),
        _seconds([crash.from_kill_s for crash in crashes]),
        "; ".join(f"`{text}`" for text in list(said)[:3]) or "nothing",
    )


def _seconds(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "never"
    if len(known) == 1:
        return f"{known[0]:.2f} s"
    return f"{median(known):.2f} s ({max(known):.2f} s)"
