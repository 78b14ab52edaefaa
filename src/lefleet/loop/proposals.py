"""What a cycle does, settled before it begins: by the schedule, or by a language model."""

from pathlib import Path
from typing import Any

import msgspec

from lefleet.errors import BadInput, Denied
from lefleet.knowledge import context, lint, suggestions
from lefleet.ledger import Ledger
from lefleet.loop.history import read_experience
from lefleet.loop.propose import limits, propose
from lefleet.loop.rules import RunRules, denial
from lefleet.loop.state import CycleState, RunState
from lefleet.models.clamp import clamp, obstacle
from lefleet.records import Proposal, ProposalRecord, ProposeRequest, Request, decode
from lefleet.stages.folder import REQUEST


class Proposals:
    """The proposals of one run. A model is asked in a stage of its own; whatever comes of that, the
    run goes on, with what the schedule says where nothing else may be used."""

    def __init__(self, ledger: Ledger, workdir: Path, run: str, rules: RunRules) -> None:
        self._ledger = ledger
        self._workdir = workdir
        self._run = run
        self._rules = rules

    def request(self, state: RunState, cycle: int, folder: Path) -> ProposeRequest:
        """What a model is asked. After an interruption with the evidence of before, though pages
        may have changed; all else is made anew, so that a changed file changes nothing."""
        budget = state.config.budgets.llm_tokens
        return ProposeRequest(
            plan=state.config.propose,
            fallback=self._scheduled(state, cycle),
            limits=limits(state, cycle),
            evidence=_asked_evidence(folder) or self._evidence(state, cycle),
            # 0 would mean no limit.
            token_budget=max(1, budget - state.llm_tokens()) if budget else 0,
        )

    def settle(self, state: RunState, cycle: int) -> Proposal:
        """The proposal that holds. What a model proposed is judged here once more; its denial is an
        event, and the schedule holds."""
        asked = state.cycles[cycle].asked() if cycle < len(state.cycles) else None
        if asked is not None and (proposed := self._usable(state, cycle, asked)):
            return proposed
        return self._scheduled(state, cycle)

    def _usable(self, state: RunState, cycle: int, asked: ProposalRecord) -> Proposal | None:
        proposed, allowed = asked.proposal, limits(state, cycle)
        about = {"cycle": cycle, "source": state.config.propose.model}
        unusable = asked.reason if asked.is_fallback else obstacle(proposed, allowed)
        if asked.is_fallback or unusable:
            self._ledger.add_event(self._run, "model_unused", {**about, "reason": unusable})
            return None
        proposed = msgspec.structs.replace(clamp(proposed, allowed), cycle=cycle)
        try:
            self._rules.current.check_proposal(proposed)
        except Denied as error:
            data = {**about, **denial(error, cycle), "proposal": msgspec.to_builtins(proposed)}
            self._ledger.add_event(self._run, "proposal_denied", data)
            return None
        return proposed

    def _scheduled(self, state: RunState, cycle: int) -> Proposal:
        experience = read_experience(self._ledger, self._run, state, cycle)
        most = self._rules.current.constitution.caps.episodes_per_task
        return propose(state, cycle, experience, most)

    def _evidence(self, state: RunState, cycle: int) -> dict[str, Any]:
        """Data for a model: results, people's words, knowledge and what is wrong with it."""
        tasks = limits(state, cycle).tasks
        return {
            "run": self._run,
            "cycle": cycle,
            "cycles": state.config.budgets.cycles,
            "tasks": list(tasks or state.config.tasks),
            "history": [_past(one) for one in state.cycles if one.decision],
            "knowledge": context(self._workdir, tasks),
            "findings": self._findings(),
        }

    def _findings(self) -> list[str]:
        try:
            return suggestions(lint(self._ledger, self._workdir))
        except (BadInput, OSError):
            # Another version's run, or a folder that cannot be read: there is nothing to suggest.
            return []


def _asked_evidence(folder: Path) -> dict[str, Any]:
    """What an interrupted stage was asked with; none where its file cannot be read."""
    file = folder / REQUEST
    try:
        asked = decode(file.read_bytes(), Request, str(file)) if file.exists() else None
    except (BadInput, OSError):
        return {}
    return asked.evidence if isinstance(asked, ProposeRequest) else {}


def _past(cycle: CycleState) -> dict[str, Any]:
    """One decided cycle."""
    evaluation, dataset, mix = cycle.evaluation(), cycle.dataset(), cycle.mix()
    rates = evaluation.result.per_task if evaluation else {}
    decision = cycle.decision
    return {
        "cycle": cycle.index,
        "episodes": dataset.tasks if dataset else {},
        "success": {task: [rate.successes, rate.episodes] for task, rate in rates.items()},
        "decision": decision.decision if decision else "",
        "why": decision.why if decision else "",
        "action": cycle.proposal.action if cycle.proposal else "",
        "note": mix.note if mix else "",
    }
