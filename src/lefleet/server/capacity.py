"""How many robots one policy can feed."""

from dataclasses import dataclass
from math import floor
from typing import Literal

BUSY = 0.8
"""Share of its time that a policy may be at work: above that, waits grow fast."""


@dataclass(frozen=True)
class Capacity:
    """Robots that can be fed, and what sets the limit.

    throughput: the policy would be at work all the time. freshness: a robot's turn would come when
    more than half of its chunk is executed.
    """

    robots: int
    limit: Literal["throughput", "freshness"]
    by_throughput: float
    by_freshness: float
    requests_per_s: float
    """Of one robot."""


def robots(
    *, inference_s: float, fps: float, chunk_size: int, n_action_steps: int, rtt_s: float
) -> Capacity:
    """min(0.8 / (r * t), (H * dt / 2 - RTT) / t), rounded down; see `Capacity`.

    A robot asks once in `n_action_steps` steps: r = fps / n_action_steps.
    """
    requests_per_s = fps / n_action_steps
    by_throughput = BUSY / (requests_per_s * inference_s)
    by_freshness = max(0.0, (chunk_size / fps / 2 - rtt_s) / inference_s)
    return Capacity(
        robots=floor(min(by_throughput, by_freshness)),
        limit="throughput" if by_throughput <= by_freshness else "freshness",
        by_throughput=by_throughput,
        by_freshness=by_freshness,
        requests_per_s=requests_per_s,
    )


def plan_text(capacity: Capacity, inference_s: float, rtt_s: float) -> str:
    """The plan for a person."""
    count = "1 robot" if capacity.robots == 1 else f"{capacity.robots} robots"
    why = {
        "throughput": f"the policy may be at work {BUSY:.0%} of the time",
        "freshness": "a robot must have its chunk before half of the last one is executed",
    }[capacity.limit]
    return (
        f"{count}: {why}.\n"
        f"  inference      {inference_s * 1000:.1f} ms\n"
        f"  round trip     {rtt_s * 1000:.1f} ms without inference\n"
        f"  one robot asks {capacity.requests_per_s:.2f} times a second\n"
        f"  by throughput  {capacity.by_throughput:.1f}\n"
        f"  by freshness   {capacity.by_freshness:.1f}"
    )
