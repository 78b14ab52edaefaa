"""What a cycle does, settled before it begins."""

from pathlib import Path
from typing import Any

from lefleet.ledger import Ledger
from lefleet.loop.requests import new_demonstrations
from lefleet.loop.state import RunState
from lefleet.records import ExpertGrowth, Proposal, Request
from lefleet.sim.tasks import resolve_tasks


class Proposals:
    def __init__(self, ledger: Ledger, workdir: Path, run: str) -> None: ...

    def request(self, state: RunState, cycle: int, folder: Path) -> Request:
        raise NotImplementedError

    def settle(self, state: RunState, cycle: int, rules: Any) -> Proposal:
        growth = state.config.collect
        method = state.config.improve.method
        action = {"none": "demonstrations", "harvest": "harvest"}.get(method, "corrections")
        episodes = {}
        if isinstance(growth, ExpertGrowth):
            new = new_demonstrations(growth, cycle)
            episodes = dict.fromkeys(resolve_tasks(state.config.tasks), new)
        return Proposal(cycle=cycle, action=action, episodes=episodes, source="schedule", why="")
