"""A pair of processes for each stack on one link, asked in turns: all meet the same noise."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.serving.children import Robots, Server, started_servers
from benchmarks.serving.links import Link

_LONGEST_REQUEST_S = 5.0


@dataclass
class Trips:
    """Round trips of one stack on one link."""

    rounds: list[list[float]] = field(default_factory=list)
    robot_cpu_s: float = 0.0
    server_cpu_s: float = 0.0
    octets: int = 0
    codec: str = ""
    """Which one the client chose, where it does."""

    @property
    def requests(self) -> int:
        return sum(map(len, self.rounds))

    def percentile_ms(self, percent: float) -> float:
        return float(np.percentile(np.concatenate(self.rounds), percent)) * 1e3

    def ratio(self, other: "Trips") -> float:
        """This one's median over the other's: the median of what single rounds say."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return median(median(mine) / median(others) for mine, others in pairs)


class _Pair(NamedTuple):
    server: Server
    robots: Robots


def round_trips(
    link: Link, stacks: Sequence[str], folder: Path, *, rounds: int, requests: dict[str, int]
) -> dict[str, Trips]:
    """What each stack needs; `requests` in a round, by stack."""
    found = {stack: Trips() for stack in stacks}
    with ExitStack() as cleanup:
        servers = started_servers(stacks, link.server, folder, cleanup)
        pairs = {
            stack: _Pair(
                server,
                cleanup.enter_context(closing(Robots(stack, server.address, link.robots, folder))),
            )
            for stack, server in servers.items()
        }
        for stack, pair in pairs.items():
            found[stack].codec = pair.robots.wait_ready()
        for _ in range(rounds):
            for stack, pair in pairs.items():
                _one_round(pair, found[stack], requests[stack])
    return found


def _one_round(pair: _Pair, trips: Trips, requests: int) -> None:
    cpu_s = pair.server.cpu_s()
    pair.robots.order("round", requests=requests)
    result = pair.robots.answer(_LONGEST_REQUEST_S * requests)
    # Two more requests warm the round up.
    share = requests / (requests + 2)
    trips.server_cpu_s += (pair.server.cpu_s() - cpu_s) * share
    trips.robot_cpu_s += result["cpu_s"]
    trips.octets += result["octets"]
    trips.rounds.append(result["seconds"])
