"""What has happened in a run, read from the ledger and nothing else, and what comes next."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from lefleet.errors import BadInput
from lefleet.ledger import ApprovalRow, AttemptRow, Ledger, RunRow
from lefleet.records import (
    ApprovalKind,
    Budgets,
    CheckpointRecord,
    Decision,
    GateLevel,
    PolicyResult,
    Proposal,
    Record,
    RunConfig,
    Rung,
    RunOrigin,
)
from lefleet.records.border import as_bad_input
from lefleet.records.cycle import CycleRecords
from lefleet.stats import gate_level, has_room, pairs_for_room, possible_pairs

DEVICE_STAGES = ("collect", "train", "evaluate", "gate", "improve")
"""All but asking a language model, which uses no device."""


@dataclass(frozen=True)
class CycleState(CycleRecords):
    """Committed stages and the decision of one cycle."""

    index: int
    records: dict[str, Record]
    decision: Decision | None
    skipped: frozenset[str] = frozenset()
    """Stages that failed for good and that the run can do without."""
    proposal: Proposal | None = None
    """What the cycle does; None before it is settled, and in cycles of older ledgers."""


class PastGate(NamedTuple):
    """What the levels of later gates depend on."""

    cycle: int
    is_better: bool
    """Whether that was its verdict."""


class Shortage(NamedTuple):
    """Pairs are too few to show even the largest improvement over the baseline that there can be.
    As its baseline and the level of its next gate do not change, that is so for the rest of a run.
    """

    needed: int
    """Pairs with which a new run from this one shows that improvement 8 times in 10."""
    listed: int
    """Pairs that the environment's list of initial states allows; 0 where it allows `needed`."""


@dataclass(frozen=True)
class RunState:
    """Everything that the next step depends on."""

    config: RunConfig
    """As it holds now."""
    cycles: list[CycleState]
    """One per cycle begun, the current one last; never empty."""
    device_seconds: float
    stop_requested: bool
    planned_cycles: int
    """Cycles of the first budget; the levels of gates depend on it, whatever is added later."""
    origin: RunOrigin | None = None
    approvals: tuple[ApprovalRow, ...] = ()
    """All questions that the run has asked, oldest first."""
    created_at: float = 0.0
    attempts: tuple[AttemptRow, ...] = ()
    """At all stages, oldest first."""

    def waited_s(self, until: float) -> float:
        """How long the run had waited for answers of people by then, in seconds."""
        ends = [(one.asked_at, one.answer.at if one.answer else until) for one in self.approvals]
        return sum(max(0.0, min(end, until) - asked_at) for asked_at, end in ends)

    def open_approval(self) -> ApprovalRow | None:
        """The question that the run waits for."""
        return next((one for one in self.approvals if one.is_open), None)

    def approval(self, kind: ApprovalKind, subject: str) -> ApprovalRow | None:
        """The question with this subject, if it was asked."""
        same = (one for one in self.approvals if (one.kind, one.subject) == (kind, subject))
        return next(same, None)

    @property
    def current(self) -> CycleState:
        return self.cycles[-1]

    def blessed(self) -> CheckpointRecord | None:
        """The checkpoint that the last decision blessed."""
        return self.blessed_after(len(self.cycles) - 1)

    def blessed_after(self, cycle: int) -> CheckpointRecord | None:
        """The checkpoint that is blessed after the decision about `cycle`, or before it where
        there is none yet."""
        own = [one.decision.blessed for one in self.cycles[: cycle + 1] if one.decision]
        if not own:
            return self.origin.checkpoint if self.origin else None
        known = [self.origin.checkpoint] if self.origin else []
        known += [checkpoint for one in self.cycles if (checkpoint := one.checkpoint())]
        return next((one for one in known if one.digest == own[-1]), None)

    def result_of(self, digest: str) -> PolicyResult | None:
        """Of a checkpoint in its own fixed block."""
        for cycle in self.cycles:
            evaluation = cycle.evaluation()
            if evaluation is not None and evaluation.result.digest == digest:
                return evaluation.result
        origin = self.origin_of(digest)
        return origin.result if origin else None

    def origin_of(self, digest: str) -> RunOrigin | None:
        """The origin of this run, if it brought that checkpoint."""
        origin = self.origin
        return origin if origin and origin.checkpoint.digest == digest else None

    def llm_tokens(self) -> int:
        """Tokens that language models have read and written."""
        asked = [record for cycle in self.cycles if (record := cycle.asked())]
        return sum(one.input_tokens + one.output_tokens for one in asked)

    def asks_model(self) -> bool:
        """Whether a language model is asked, and has tokens left."""
        budget = self.config.budgets.llm_tokens
        return bool(self.config.propose.model) and (not budget or self.llm_tokens() < budget)

    @property
    def planned_gates(self) -> int:
        """Gates that the first cycle budget plans: every cycle can have one, except a first cycle
        without a baseline."""
        return self.planned_cycles - (self.origin is None)

    def gates_before(self, cycle: int) -> list[PastGate]:
        """Every gate before `cycle`, in order."""
        decisions = (one.decision for one in self.cycles[:cycle])
        return [
            PastGate(decision.cycle, decision.gate.verdict == "better")
            for decision in decisions
            if decision is not None and decision.gate is not None
        ]

    def gate_level(self, cycle: int) -> GateLevel:
        """Level of the gate of `cycle`, if it has one."""
        plan, before = self.config.gate, self.gates_before(cycle)
        level = gate_level(
            plan.guarantee, plan.alpha, self.planned_gates, [gate.is_better for gate in before]
        )
        return msgspec.structs.replace(
            level,
            passed_by=before[-1].cycle if level.passed_on else None,
            guarantee="none" if self.config.evaluate.initial_states else level.guarantee,
        )

    def baseline_rate(self) -> float | None:
        """Outcome to expect of the blessed checkpoint: that of its fixed block and of one more
        success and failure, so that it is never certain."""
        blessed = self.blessed()
        result = self.result_of(blessed.digest) if blessed else None
        if result is None:
            return None
        rate, episodes = result.overall.rate, result.overall.episodes
        if self.config.gate.metric == "progress":
            rate = result.mean_progress
        return (rate * episodes + 1.0) / (episodes + 2.0)

    def shortage(self) -> Shortage | None:
        """None where the gate of the current cycle may show an improvement over the blessed
        checkpoint. Asked of success only."""
        plan, states = self.config.gate, self.config.evaluate.initial_states
        rate, blessed = self.baseline_rate(), self.blessed()
        result = self.result_of(blessed.digest) if blessed else None
        if rate is None or result is None or plan.metric != "success":
            return None
        pairs = possible_pairs(plan.max_pairs, states, len(result.per_task))
        if has_room(self.gate_level(self.current.index).better, 1.0 - rate, pairs):
            return None
        fresh = gate_level(plan.guarantee, plan.alpha, self.planned_cycles, ()).better
        needed = pairs_for_room(fresh, 1.0 - rate)
        listed = states * len(result.per_task)
        if 0 < listed < needed:
            return Shortage(needed, listed)
        return Shortage(max(needed, plan.max_pairs), 0)

    def has_gate(self, cycle: int) -> bool:
        """Whether `cycle`, the current one or one before, has a gate: there is a baseline, and
        room for an improvement over it."""
        decision = self.cycles[cycle].decision
        if decision is not None:
            return decision.gate is not None
        return self.has_baseline(cycle) and self.shortage() is None

    def has_baseline(self, cycle: int) -> bool:
        """Whether there is something to compare the candidate of `cycle` with."""
        decided = (one.decision for one in self.cycles[:cycle])
        return self.origin is not None or any(one and one.blessed for one in decided)

    def rung(self) -> int:
        """Rung of the ladder that the current cycle trains on."""
        return first_rung(self.config, self.origin) + sum(
            c.decision is not None and c.decision.decision == "escalate" for c in self.cycles
        )

    def rung_of(self, digest: str) -> Rung | None:
        """The rung that a checkpoint was trained on, here or before."""
        decisions = (one.decision for one in self.cycles if one.decision)
        own = [one.rung for one in decisions if one.candidate == digest]
        if own:
            return self.config.ladder[own[0]]
        origin = self.origin_of(digest)
        return origin.rung if origin else None


def first_rung(config: RunConfig, origin: RunOrigin | None) -> int:
    """Rung that the first cycle trains on: that of the origin's checkpoint, if the ladder has it,
    so that the training continues from it."""
    same = [n for n, rung in enumerate(config.ladder) if origin and is_same(rung, origin.rung)]
    return same[0] if same else 0


def is_same(rung: Rung, other: Rung) -> bool:
    """Whether both are about the same policy, so that one continues what the other trained."""
    return all(getattr(rung, name) == getattr(other, name) for name in _POLICY_FIELDS)


_POLICY_FIELDS = ("policy_type", "init", "policy", "rename_map")


def read_state(ledger: Ledger, row: RunRow) -> RunState:
    """What the ledger has of a run; BadInput where this lefleet cannot read it."""
    config = stored_config(row)
    with _readable(row, "records"):
        attempts = ledger.attempts(row.id)
        decisions = {decision.cycle: decision for decision in ledger.decisions(row.id)}
        proposals = {proposal.cycle: proposal for proposal in ledger.proposals(row.id)}
        approvals = ledger.approvals.all(row.id)
    committed = [attempt for attempt in attempts if attempt.state == "committed"]
    last = max([0, *(attempt.cycle for attempt in attempts), *decisions, *proposals])
    cycles = [
        CycleState(
            index,
            {a.stage: a.record for a in committed if a.cycle == index and a.record is not None},
            decisions.get(index),
            frozenset(a.stage for a in attempts if a.cycle == index and a.state == "skipped"),
            proposals.get(index),
        )
        for index in range(last + 1)
    ]
    return RunState(
        config,
        cycles,
        device_seconds=sum(one.worked_s() for one in attempts if one.stage in DEVICE_STAGES),
        stop_requested=row.stop_requested,
        planned_cycles=first_config(row).budgets.cycles,
        origin=stored_origin(row),
        approvals=tuple(approvals),
        created_at=row.created_at,
        attempts=tuple(attempts),
    )


def first_config(row: RunRow) -> RunConfig:
    """The config that a run was begun with. Runs of ledgers that knew no proposals collected as
    many demonstrations of each task, and go on so."""
    fields = {"propose": {"split": "uniform"}} | row.config
    with _readable(row, "config"):
        return msgspec.convert(fields, RunConfig)


def stored_config(row: RunRow) -> RunConfig:
    """The config of a run as it holds now: with other budgets and corrections, if it has some."""
    config = first_config(row._replace(config=row.corrected_config))
    if row.budgets is None:
        return config
    with _readable(row, "budgets"):
        return msgspec.structs.replace(config, budgets=msgspec.convert(row.budgets, Budgets))


def stored_origin(row: RunRow) -> RunOrigin | None:
    """What a run started from."""
    with _readable(row, "origin"):
        return msgspec.convert(row.origin, RunOrigin | None)


@contextmanager
def _readable(row: RunRow, what: str) -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as error:
        problem = as_bad_input(error, f"run: this lefleet cannot read the {what} of {row.id}")
        remedy = "Use the lefleet that began it, or begin another run."
        raise BadInput(problem.problem, remedy) from error
