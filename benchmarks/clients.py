"""One policy, many robots: how many answers, how late, and is anybody left behind?"""

import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.report import Section, table
from benchmarks.serving.children import Robots, Server, started_servers
from benchmarks.serving.links import Link, same_host
from benchmarks.serving.stacks import OURS, STACKS
from benchmarks.serving.targets import Target, target_table
from benchmarks.workshop import Workshop, say

PEERS = ("websocket", "zeromq-jpeg")
POLICY_MS = 5.0
# Replies are whole numbers: with fewer than some dozens per robot, one more or less looks unfair.
WINDOW_S = {1: 2.0, 4: 2.0, 16: 4.0, 64: 10.0}
PROCESSES = 4
LEAD_S = 1.0


class Crowd(NamedTuple):
    """Some robots for a while."""

    per_second: float
    p95_ms: float
    fewest: int
    most: int
    errors: tuple[str, ...]

    @property
    def unfairness(self) -> float:
        return self.most / self.fewest if self.fewest else float("inf")


def measure(workshop: Workshop) -> Section:
    counts = (4,) if workshop.quick else tuple(WINDOW_S)
    found: dict[tuple[str, int], Crowd] = {}
    folder = workshop.folder / "clients"
    folder.mkdir()
    with same_host() as link, ExitStack() as cleanup:
        stacks = (*PEERS, OURS)
        servers = started_servers(stacks, link.server, folder, cleanup, policy_ms=POLICY_MS)
        for count in counts:
            window_s = 1.0 if workshop.quick else WINDOW_S[count]
            for stack, server in servers.items():
                found[stack, count] = _crowd(
                    stack, server, link, folder, count=count, window_s=window_s
                )
            say(f"{count} robots are done")
    header = ("robots", "stack", "replies per second", "p95", "replies per robot", "max ÷ min")
    rows = [_row(stack, count, crowd) for (stack, count), crowd in found.items()]
    worst = max(found[OURS, count].unfairness for count in counts)
    errors = sum(len(crowd.errors) for crowd in found.values())
    return Section(
        "many robots, one policy of 5 ms",
        (
            table(header, rows),
            target_table(
                [Target("LeFleet, most replies ÷ fewest, any number of robots", 1.1, worst)]
            ),
        ),
        (
            "Every robot asks again as soon as it is answered; the policy answers one at a time,",
            f"so {1e3 / POLICY_MS:.0f} replies per second are the most there can be.",
            f"Robots share up to {PROCESSES} processes, on the host of the server.",
            f"Requests that failed: {errors}.",
        ),
    )


def _crowd(
    stack: str, server: Server, link: Link, folder: Path, *, count: int, window_s: float
) -> Crowd:
    processes = min(count, PROCESSES)
    with ExitStack() as cleanup:
        groups = [
            cleanup.enter_context(
                closing(Robots(stack, server.address, link.robots, folder, count // processes))
            )
            for _ in range(processes)
        ]
        for group in groups:
            group.wait_ready()
        start = time.monotonic() + LEAD_S
        for group in groups:
            group.order("window", start=start, end=start + window_s)
        results = [group.answer(LEAD_S + window_s + 30.0) for group in groups]
    answered = [robot for result in results for robot in result["answered"]]
    replies = [len(robot) for robot in answered]
    seconds = [one for robot in answered for one in robot]
    return Crowd(
        len(seconds) / window_s,
        float(np.percentile(seconds, 95)) * 1e3 if seconds else float("inf"),
        min(replies),
        max(replies),
        tuple(text for result in results for text in result["errors"]),
    )


def _row(stack: str, count: int, crowd: Crowd) -> tuple[str, ...]:
    return (
        str(count),
        STACKS[stack].title,
        f"{crowd.per_second:.0f}",
        f"{crowd.p95_ms:.0f} ms",
        f"{crowd.fewest} to {crowd.most}",
        f"{crowd.unfairness:.2f}",
    )
