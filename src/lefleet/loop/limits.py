"""Limits of a run, as pure functions: budgets, attempts at a stage, and waits between them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lefleet.devices import CPU
from lefleet.errors import BadInput
from lefleet.ledger import AttemptRow
from lefleet.loop.state import DEVICE_STAGES, RunState
from lefleet.loop.steps import EndRun, next_step
from lefleet.records import Budgets, CompareRequest, EvaluateRequest, Request

MAX_BACKOFF_S = 30.0


class Usage(NamedTuple):
    """What a run has used so far."""

    wall_s: float
    device_s: float
    collected_episodes: int
    evaluation_episodes: int
    llm_tokens: int


def usage(state: RunState, wall_s: float, running_s: float = 0.0) -> Usage:
    """`wall_s` is the time since the run began, `running_s` how long the current stage has been
    running. Time in which the run waited for a person is not used."""
    collected = evaluated = 0
    for cycle in state.cycles:
        for record in (cycle.dataset(), cycle.mix()):
            collected += sum(tally.kept for tally in record.tallies.values()) if record else 0
        if (evaluation := cycle.evaluation()) is not None:
            evaluated += evaluation.result.overall.episodes
        if (gate := cycle.gate()) is not None:
            evaluated += gate.episodes
    device_s = state.device_seconds + running_s
    worked_s = max(0.0, wall_s - state.waited_s(until=state.created_at + wall_s))
    return Usage(worked_s, device_s, collected, evaluated, state.llm_tokens())


def device_hours(attempts: Sequence[AttemptRow], now: float) -> dict[str, float]:
    """Hours of attempts at stages by the device that they named; the budget counts all together.
    Stages that name none, such as a scripted expert's, use the CPU."""
    hours: dict[str, float] = {}
    for one in attempts:
        if one.stage not in DEVICE_STAGES:
            continue
        device = getattr(one.request, "device", CPU)
        hours[device] = hours.get(device, 0.0) + one.worked_s(now) / 3600
    return dict(sorted(hours.items(), key=lambda used: -used[1]))


def reached(budgets: Budgets, used: Usage) -> str:
    """The limit that ends the run, in words; empty when there is none. A run without tokens goes on
    without the language model."""
    for name, value, limit in limits(budgets, used):
        if limit and value >= limit and name != "llm_tokens":
            return f"budget {name} of {limit:g} is used up"
    return ""


def limits(budgets: Budgets, used: Usage) -> tuple[tuple[str, float, float], ...]:
    """Of every budget but cycles its name, what is used and its limit, 0 where it has none."""
    return (
        ("wall_hours", used.wall_s / 3600, budgets.wall_hours),
        ("device_hours", used.device_s / 3600, budgets.device_hours),
        ("collected_episodes", used.collected_episodes, budgets.collected_episodes),
        ("evaluation_episodes", used.evaluation_episodes, budgets.evaluation_episodes),
        ("llm_tokens", used.llm_tokens, budgets.llm_tokens),
    )


def require_room(state: RunState, run: str, used: Usage) -> None:
    """Raise BadInput where a run cannot go on within the budgets of its config."""
    budgets, begun = state.config.budgets, len(state.cycles)
    if budgets.cycles < begun:
        raise BadInput(
            f"budgets.cycles: {begun} cycles of {run} have begun already.",
            f"Allow at least {begun}.",
        )
    for name, value, limit in limits(budgets, used):
        if limit and value >= limit and name != "llm_tokens":
            raise BadInput(
                f"budgets.{name}: {run} has used {value:.4g} already, and {limit:g} are allowed.",
                "Allow more, or 0 for no limit.",
            )
    if isinstance(next_step(replace(state, stop_requested=False)), EndRun):
        last = state.current.decision
        if last is not None and last.decision == "stop":
            other_ladder = (
                "Start a new run from it, with another ladder: lefleet run -c FILE --from "
                f"{run} --name=NAME"
            )
            raise BadInput(
                f"budgets: {run} ended with the decision stop in cycle {last.cycle}, not by a "
                f"budget: {last.why}.",
                # Where there was no room for a gate, the reason names the remedy.
                "" if last.pairs_needed else other_ladder,
            )
        raise BadInput(
            f"budgets.cycles: all {begun} cycles of {run} are done.", f"Allow more than {begun}."
        )


def would_exceed(budgets: Budgets, used: Usage, request: Request, tasks: int) -> str:
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


def attempts_used(attempts: Sequence[AttemptRow], after: int, *states: str) -> int:
    """How many attempts at a stage count against a limit.

    Those that ended in one of `states` and recorded nothing new: no further episode, no later
    training checkpoint. `after` is the last attempt before the run was resumed.
    """
    count = most = 0
    for attempt in attempts:
        is_new, most = attempt.recorded > most, max(attempt.recorded, most)
        count += attempt.id > after and attempt.state in states and not is_new
    return count


def backoff_s(attempts: Sequence[AttemptRow], after: int, now: float) -> float:
    """How long to wait before the next attempt at a stage.

    After two kills in a row 2 s since the last one, then 4 s, 8 s, up to MAX_BACKOFF_S.
    """
    kills = 0
    for attempt in reversed(attempts):
        if attempt.id <= after or attempt.state not in ("killed", "gone"):
            break
        kills += 1
    if kills < 2:
        return 0.0
    wait = min(2.0 ** (kills - 1), MAX_BACKOFF_S)
    passed = now - (attempts[-1].ended_at or now)
    # A clock that was set back must not make the wait longer.
    return wait - passed if 0 <= passed < wait else 0.0
