"""What a run has come to, for people and scripts."""

from typing import Any

import msgspec

from lefleet.ledger import Ledger, RunRow
from lefleet.loop.state import CycleState, read_state


def run_status(ledger: Ledger, row: RunRow) -> dict[str, Any]:
    """One run as JSON."""
    state = read_state(ledger, row)
    blessed = state.blessed()
    return {
        "id": row.id,
        "state": row.state,
        "reason": row.reason,
        "tasks": list(state.config.tasks),
        "cycles": [_cycle(cycle) for cycle in state.cycles if cycle.records or cycle.decision],
        "blessed": blessed.digest if blessed else None,
        "blessed_path": blessed.path if blessed else None,
    }


def _cycle(cycle: CycleState) -> dict[str, Any]:
    evaluation, dataset, checkpoint = cycle.evaluation(), cycle.dataset(), cycle.checkpoint()
    overall = evaluation.result.overall if evaluation else None
    gate = cycle.decision.gate if cycle.decision else None
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
        "tasks": {
            task: {"success_rate": rate.rate, "interval": rate.interval, "episodes": rate.episodes}
            for task, rate in (evaluation.result.per_task if evaluation else {}).items()
        },
        "stages": sorted(cycle.records),
    }
