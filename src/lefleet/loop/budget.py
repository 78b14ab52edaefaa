"""What a run has spent, and which limit it reaches: pure functions."""

from typing import NamedTuple

from lefleet.loop.state import RunState
from lefleet.records import Budgets, CompareRequest, EvaluateRequest, Request


class Spent(NamedTuple):
    """Spent so far."""

    wall_s: float
    device_s: float
    collected_episodes: int
    evaluation_episodes: int


def spent(state: RunState, wall_s: float, running_s: float = 0.0) -> Spent:
    """`running_s` is how long the current stage has been running."""
    collected = evaluated = 0
    for cycle in state.cycles:
        for record in (cycle.dataset(), cycle.mix()):
            collected += sum(tally.kept for tally in record.tallies.values()) if record else 0
        if (evaluation := cycle.evaluation()) is not None:
            evaluated += evaluation.result.overall.episodes
        if (gate := cycle.gate()) is not None:
            evaluated += gate.episodes
    return Spent(wall_s, state.device_seconds + running_s, collected, evaluated)


def reached(budgets: Budgets, used: Spent) -> str:
    """The limit that is reached, in words; empty when there is none."""
    limits = (
        ("wall_hours", used.wall_s / 3600, budgets.wall_hours),
        ("device_hours", used.device_s / 3600, budgets.device_hours),
        ("collected_episodes", used.collected_episodes, budgets.collected_episodes),
        ("evaluation_episodes", used.evaluation_episodes, budgets.evaluation_episodes),
    )
    for name, value, limit in limits:
        if limit and value >= limit:
            return f"budget {name} of {limit:g} is used up"
    return ""


def would_exceed(budgets: Budgets, used: Spent, request: Request, tasks: int) -> str:
    """The limit that carrying out `request` would exceed, in words."""
    match request:
        case EvaluateRequest():
            planned = tasks * request.episodes_per_task
        case CompareRequest():
            planned = 2 * request.max_pairs
        case _:
            return ""
    if not budgets.evaluation_episodes:
        return ""
    if used.evaluation_episodes + planned <= budgets.evaluation_episodes:
        return ""
    return (
        f"budget evaluation_episodes of {budgets.evaluation_episodes} does not hold "
        f"{planned} more after {used.evaluation_episodes}"
    )
