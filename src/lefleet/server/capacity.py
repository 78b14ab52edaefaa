"""How many robots one policy can feed."""

from dataclasses import dataclass
from math import floor
from typing import Literal

BUSY = 0.8
"""Share of its time that a policy may be at work: above that, waits grow fast."""

Limit = Literal["throughput", "freshness", "exclusive", "max_sessions"]


@dataclass(frozen=True)
class Capacity:
    """Robots that can be fed, and what sets the limit.

    throughput: the policy would be at work all the time. freshness: a robot's turn would come when
    more than half of its chunk is executed. exclusive: the policy is served to one robot at a time.
    max_sessions: the manifest's.
    """

    robots: int
    limit: Limit
    by_throughput: float
    by_freshness: float
    max_sessions: int
    """1 if exclusive."""
    requests_per_s: float
    """Of one robot."""


def robots(
    *,
    inference_s: float,
    fps: float,
    chunk_size: int,
    n_action_steps: int,
    rtt_s: float,
    max_sessions: int,
    is_exclusive: bool,
) -> Capacity:
    """min(0.8 / (r * t), (H * dt / 2 - RTT) / t, sessions), rounded down; see `Capacity`.

    A robot asks once in `n_action_steps` steps: r = fps / n_action_steps.
    """
    requests_per_s = fps / n_action_steps
    by_throughput = BUSY / (requests_per_s * inference_s)
    by_freshness = max(0.0, (chunk_size / fps / 2 - rtt_s) / inference_s)
    places = 1 if is_exclusive else max_sessions
    limits: dict[Limit, float] = {
        "throughput": by_throughput,
        "freshness": by_freshness,
        "exclusive" if is_exclusive else "max_sessions": places,
    }
    limit = min(limits, key=lambda name: limits[name])
    return Capacity(
        robots=floor(limits[limit]),
        limit=limit,
        by_throughput=by_throughput,
        by_freshness=by_freshness,
        max_sessions=places,
        requests_per_s=requests_per_s,
    )


def plan_text(capacity: Capacity, inference_s: float, rtt_s: float, mode_reason: str) -> str:
    """The plan for a person; `mode_reason` says why a policy is exclusive."""
    count = "1 robot" if capacity.robots == 1 else f"{capacity.robots} robots"
    why = {
        "throughput": f"the policy may be at work {BUSY:.0%} of the time",
        "freshness": "a robot must have its chunk before half of the last one is executed",
        "exclusive": f"the policy is served to one robot at a time, because {mode_reason}",
        "max_sessions": "max_sessions allows no more",
    }[capacity.limit]
    return (
        f"{count}: {why}.\n"
        f"  inference      {inference_s * 1000:.1f} ms\n"
        f"  round trip     {rtt_s * 1000:.1f} ms without inference\n"
        f"  one robot asks {capacity.requests_per_s:.2f} times a second\n"
        f"  by throughput  {capacity.by_throughput:.1f}\n"
        f"  by freshness   {capacity.by_freshness:.1f}\n"
        f"  max_sessions   {capacity.max_sessions}"
    )
