"""The series of a run: success with intervals, decisions, evidence, losses, what budgets it used.

Pure functions of what the ledger holds about cycles that are decided, and the process that hands
them to a tracker. Nothing of a decided cycle changes any more, so neither do its points.
"""

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from lefleet.errors import LeFleetError
from lefleet.ledger import Ledger, RunRow, read_ledger
from lefleet.loop.limits import limits, usage
from lefleet.loop.runs import find
from lefleet.loop.state import DEVICE_STAGES, CycleState, RunState, read_state
from lefleet.records import GateResult, Rate
from lefleet.track.names import trackio_folder, wandb_folder
from lefleet.track.series import Point, Series, Value, series_id
from lefleet.track.trackers import write_trackio, write_wandb

_MOST_DECISIONS = 10_000


def write_series(workdir: Path, run: str, tracker: str) -> int:
    """`lefleet track write`: log a run to one tracker; the exit code."""
    try:
        with closing(read_ledger(workdir)) as ledger:
            series = tracked_series(ledger, find(ledger, run))
        if tracker == "trackio":
            write_trackio(series, trackio_folder(workdir))
        else:
            write_wandb(series, wandb_folder(workdir / run))
    except LeFleetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except Exception:  # noqa: BLE001 - a tracker may raise anything
        traceback.print_exc()
        return 1
    return 0


def tracked_series(ledger: Ledger, row: RunRow) -> list[Series]:
    """All of a run."""
    events = ledger.feed.recent(row.id, kinds=("decision",), limit=_MOST_DECISIONS)
    return series_of(read_state(ledger, row), row.id, {e.data["cycle"]: e.at for e in events})


def series_of(state: RunState, run: str, decided_at: Mapping[int, float]) -> list[Series]:
    """One of the run, with a point for each decided cycle, and of each such cycle one of its
    training and one of its gate, if it had one."""
    config: dict[str, Value] = {
        "tasks": ", ".join(state.config.tasks),
        "seed": state.config.seed,
        "ladder": ", ".join(f"{one.name} ({one.policy_type})" for one in state.config.ladder),
        "origin": f"{state.origin.run}:{state.origin.cycle}" if state.origin else "",
    }

    def made(kind: str, part: str, name: str, points: Iterator[Point]) -> Series:
        id_ = series_id(run, state.created_at, part)
        return Series(name, kind, run, id_, config, tuple(points))

    def at(cycle: CycleState) -> float:
        return decided_at[cycle.index]

    cycles = [one for one in state.cycles if one.decision is not None and one.index in decided_at]
    rows = (Point(one.index, at(one), _row(state, one, at(one))) for one in cycles)
    found = [made("loop", "loop", run, rows)]
    for one in cycles:
        number = one.index
        found += [
            made("train", f"train {number}", f"{run}:{number} train", _losses(one, at(one))),
            made("gate", f"gate {number}", f"{run}:{number} gate", _looks(one, at(one))),
        ]
    return [one for one in found if one.points]


def _row(state: RunState, cycle: CycleState, at: float) -> dict[str, Value]:
    """What is known of a cycle once it is decided."""
    decision, values = cycle.decision, dict[str, Value](cycle=cycle.index)
    if (data := cycle.dataset()) is not None:
        values["episodes"] = len(data.episodes)
    if (trained := cycle.checkpoint()) is not None and trained.final_loss is not None:
        values["final_loss"] = trained.final_loss
    if (evaluation := cycle.evaluation()) is not None:
        result = evaluation.result
        values |= _rate("success", result.overall)
        for task, rate in result.per_task.items():
            values |= _rate(f"success/{task}", rate)
        values["progress"] = result.mean_progress
    if decision is not None:
        values |= {"decision": decision.decision, "why": decision.why, "rung": decision.rung}
        values["blessed"] = int(decision.decision in ("baseline", "promote"))
        if decision.gate is not None:
            values |= _evidence(decision.gate)
    used = usage(_until(state, cycle.index, at), max(0.0, at - state.created_at))
    values |= {f"used/{name}": value for name, value, _ in limits(state.config.budgets, used)}
    return values


def _rate(name: str, rate: Rate) -> dict[str, Value]:
    low, high = rate.interval
    return {name: rate.rate, f"{name}_low": low, f"{name}_high": high}


def _evidence(gate: GateResult) -> dict[str, Value]:
    low, high = gate.interval
    return {
        "gate/verdict": gate.verdict,
        "gate/pairs": gate.pairs,
        "gate/wins": gate.wins,
        "gate/losses": gate.losses,
        "gate/p_better": gate.p_value,
        "gate/p_worse": gate.p_worse,
        "gate/level": gate.alpha_better,
        "gate/difference": gate.difference,
        "gate/difference_low": low,
        "gate/difference_high": high,
    }


def _until(state: RunState, cycle: int, at: float) -> RunState:
    """The run as it was when `cycle` was decided: `improve` comes after that."""
    cycles = [
        replace(one, records={k: v for k, v in one.records.items() if k != "improve"})
        if one.index == cycle
        else one
        for one in state.cycles[: cycle + 1]
    ]
    ended = [one for one in state.attempts if one.ended_at is not None and one.ended_at <= at]
    device_s = sum(one.worked_s() for one in ended if one.stage in DEVICE_STAGES)
    return replace(state, cycles=cycles, device_seconds=device_s)


def _losses(cycle: CycleState, at: float) -> Iterator[Point]:
    trained = cycle.checkpoint()
    for point in trained.curve if trained else ():
        values: dict[str, Value] = {"train/learning_rate": point.learning_rate}
        if point.loss is not None:
            values["train/loss"] = point.loss
        if point.grad_norm is not None:
            values["train/grad_norm"] = point.grad_norm
        yield Point(point.step, at, values)


def _looks(cycle: CycleState, at: float) -> Iterator[Point]:
    compared = cycle.gate()
    for look in compared.looks if compared else ():
        low, high = look.interval
        yield Point(
            look.pairs,
            at,
            {
                "look/wins": look.wins,
                "look/losses": look.losses,
                "look/log_e": look.log_e,
                "look/p_better": look.p_value,
                "look/p_worse": look.p_worse,
                "look/difference_low": low,
                "look/difference_high": high,
                "look/power": look.power,
            },
        )
