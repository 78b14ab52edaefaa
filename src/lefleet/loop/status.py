"""What a run has come to: as JSON, and as files for people when it ends.

summary.json           the run as `lefleet status --json` shows it
tasks.csv              success of every task in every cycle, with its exact interval
success.png            success over cycles, and films of the last one
evidence_cycle_N.png   how the gate of cycle N reached its verdict
"""

import csv
import io
import time
from pathlib import Path
from typing import Any

import msgspec

from lefleet.durable import write_durably
from lefleet.ledger import ApprovalRow, Ledger, RunRow
from lefleet.loop.limits import Usage, device_hours, limits, usage
from lefleet.loop.state import DEVICE_STAGES, CycleState, RunState, read_state
from lefleet.loop.success_plot import PLOT, plot_success
from lefleet.stages.evidence_plot import plot_evidence

SUMMARY = "summary.json"
TASKS = "tasks.csv"


def run_status(ledger: Ledger, row: RunRow) -> dict[str, Any]:
    """One run as JSON."""
    return status_of_state(read_state(ledger, row), row)


def status_of_state(state: RunState, row: RunRow) -> dict[str, Any]:
    """As `run_status`, of what was read before."""
    blessed, origin = state.blessed(), state.origin
    elapsed_s, running_s = _times(state, row)
    return {
        "id": row.id,
        "state": row.state,
        "reason": row.reason,
        "origin": f"{origin.run}:{origin.cycle}" if origin else None,
        "elapsed_s": elapsed_s,
        "budgets": _budgets(state, usage(state, elapsed_s, running_s)),
        "device_hours": device_hours(state.attempts, time.time()),
        "tasks": list(state.config.tasks),
        "cycles": [_cycle(cycle) for cycle in state.cycles if cycle.records or cycle.decision],
        "approvals": [_approval(one) for one in state.approvals],
        "blessed": blessed.digest if blessed else None,
        "blessed_path": blessed.path if blessed else None,
    }


def _times(state: RunState, row: RunRow) -> tuple[float, float]:
    """Seconds since the run began, until its last stage ended where the run has ended; and seconds
    that the current stage has been running."""
    attempts, now = state.attempts, time.time()
    ends = [one.ended_at for one in attempts if one.ended_at is not None]
    end = now if row.state == "running" else max(ends, default=row.created_at)
    running = [one for one in attempts if one.state == "running" and one.stage in DEVICE_STAGES]
    running_s = sum(one.worked_s(now) for one in running)
    return max(0.0, end - row.created_at), running_s


def _budgets(state: RunState, used: Usage) -> dict[str, Any]:
    """What is used of every budget, and its limit: 0 where it has none."""
    budgets = state.config.budgets
    decided = sum(cycle.decision is not None for cycle in state.cycles)
    every = (("cycles", decided, budgets.cycles), *limits(budgets, used))
    return {name: {"used": value, "limit": limit} for name, value, limit in every}


def _approval(asked: ApprovalRow) -> dict[str, Any]:
    return msgspec.to_builtins(asked)


def _cycle(cycle: CycleState) -> dict[str, Any]:
    evaluation, dataset, checkpoint = cycle.evaluation(), cycle.dataset(), cycle.checkpoint()
    overall = evaluation.result.overall if evaluation else None
    gate = cycle.decision.gate if cycle.decision else None
    level = cycle.decision.level if cycle.decision else None
    return {
        "index": cycle.index,
        "decision": cycle.decision.decision if cycle.decision else None,
        "why": cycle.decision.why if cycle.decision else None,
        "diagnosis": list(cycle.decision.diagnosis) if cycle.decision else [],
        "success_rate": overall.rate if overall else None,
        "interval": list(overall.interval) if overall else None,
        "episodes": overall.episodes if overall else None,
        "demonstrations": len(dataset.episodes) if dataset else None,
        "checkpoint_digest": checkpoint.digest if checkpoint else None,
        "gate": msgspec.to_builtins(gate) if gate else None,
        "level": msgspec.to_builtins(level) if level else None,
        "tasks": {
            task: {"success_rate": rate.rate, "interval": rate.interval, "episodes": rate.episodes}
            for task, rate in (evaluation.result.per_task if evaluation else {}).items()
        },
        "proposal": msgspec.to_builtins(cycle.proposal),
        "answer": msgspec.to_builtins(cycle.decision.answer) if cycle.decision else None,
        "stages": list(cycle.records),
    }


def write_summary(ledger: Ledger, row: RunRow, folder: Path) -> None:
    """Write all of them; a run without an evaluated cycle gets no plot."""
    status = run_status(ledger, row)
    text = msgspec.json.format(msgspec.json.encode(status), indent=2)
    write_durably(folder / SUMMARY, text + b"\n")
    cycles = [cycle for cycle in status["cycles"] if cycle["success_rate"] is not None]
    write_durably(folder / TASKS, task_table(cycles).encode())
    if cycles:
        films = sorted(folder.glob(f"cycle_{cycles[-1]['index']}/evaluate/videos/*.mp4"))
        plot_success(cycles, status["id"], films, folder / PLOT)
    for cycle in read_state(ledger, row).cycles:
        if (gate := cycle.gate()) is not None:
            title = f"{row.id}, cycle {cycle.index}: candidate against baseline"
            plot_evidence(gate, title, folder / f"evidence_cycle_{cycle.index}.png")


def task_table(cycles: list[dict[str, Any]]) -> str:
    """Tasks and cycles as CSV, one row for each of both."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("cycle", "task", "success_rate", "low", "high", "episodes"))
    for cycle in cycles:
        for task, found in cycle["tasks"].items():
            low, high = found["interval"]
            row = (cycle["index"], task, found["success_rate"], low, high, found["episodes"])
            writer.writerow(row)
    return text.getvalue()
