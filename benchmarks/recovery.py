"""A server is killed and started again: when is the same client object answered again?"""

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.report import Section, table
from benchmarks.serving.children import Robots, Server, started_servers
from benchmarks.serving.links import Link, same_host
from benchmarks.serving.stacks import OURS, STACKS
from benchmarks.serving.targets import Target, target_table
from benchmarks.workshop import Workshop, say

PEERS = ("lerobot", "websocket", "zeromq")
# So long that nearly every kill falls into a request.
POLICY_MS = 50.0
BEFORE_S = 0.5
PATIENCE_S = 5.0
KILLS = 3


class Crash(NamedTuple):
    """One kill; the first two are None when no reply came in time."""

    from_ready_s: float | None
    from_kill_s: float | None
    restart_s: float
    new_client_s: float | None
    """How soon a new client object was answered; None where none was needed."""
    said: tuple[str, ...]


def measure(workshop: Workshop) -> Section:
    crashes = {}
    stacks = (*PEERS, OURS)
    folder = workshop.folder / "recovery"
    folder.mkdir()
    with same_host() as link, ExitStack() as cleanup:
        servers = started_servers(stacks, link.server, folder, cleanup, policy_ms=POLICY_MS)
        for stack, server in servers.items():
            count = KILLS if stack == OURS and not workshop.quick else 1
            crashes[stack] = _crashes(stack, server, link, folder, count)
            say(f"{STACKS[stack].title} is done")
    ours = [crash.from_ready_s for crash in crashes[OURS]]
    worst = max(PATIENCE_S if seconds is None else seconds for seconds in ours)
    header = (
        "stack",
        "after the new server was ready",
        "after the kill",
        "restart took",
        "a new client object",
        "what the client raised",
    )
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
            "one it waits without end. LeRobot's new server has no policy until a new client sends",
            "its instructions. A restart is mostly the loading of libraries.",
            f"LeFleet: medians and, in brackets, the worst of {len(ours)} kills in a row.",
        ),
    )


def _crashes(stack: str, server: Server, link: Link, folder: Path, count: int) -> list[Crash]:
    """One client object lives through all of them."""
    found = []
    with ExitStack() as cleanup:
        robots = cleanup.enter_context(closing(Robots(stack, server.address, link.robots, folder)))
        robots.wait_ready()
        for number in range(count):
            ready_file = folder / f"{stack}-ready-{number}"
            robots.order("watch", ready_file=str(ready_file), patience_s=PATIENCE_S)
            time.sleep(BEFORE_S)
            killed = time.monotonic()
            server.kill()
            server = cleanup.enter_context(
                closing(Server(stack, link.server, folder, port=server.port, policy_ms=POLICY_MS))
            )
            ready = server.wait_ready()
            ready_file.with_suffix(".new").write_text(str(ready))
            ready_file.with_suffix(".new").rename(ready_file)
            seen = robots.answer(10 * PATIENCE_S)
            again = seen["answered"]
            found.append(
                Crash(
                    None if again is None else again - ready,
                    None if again is None else again - killed,
                    ready - killed,
                    seen.get("new_client_s"),
                    tuple(text for instant, text in seen["bad"] if instant > killed),
                )
            )
    return found


def _row(stack: str, crashes: list[Crash]) -> tuple[str, ...]:
    said = dict.fromkeys(text for crash in crashes for text in crash.said)
    return (
        STACKS[stack].title,
        _seconds([crash.from_ready_s for crash in crashes]),
        _seconds([crash.from_kill_s for crash in crashes]),
        _seconds([crash.restart_s for crash in crashes]),
        "not needed" if crashes[0].new_client_s is None else f"{crashes[0].new_client_s:.2f} s",
        "; ".join(f"`{text}`" for text in list(said)[:2]) or "nothing",
    )


def _seconds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "never"
    if len(known) == 1:
        return f"{known[0]:.2f} s"
    return f"{median(known):.2f} s ({max(known):.2f} s)"
