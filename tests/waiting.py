"""Runs that ask a person, without real stages: their rows are there, and a real controller asks."""

import json
from contextlib import closing
from pathlib import Path

import msgspec

from lefleet.constitution import stored
from lefleet.ledger import open_ledger
from lefleet.loop.answers import record_answer
from lefleet.loop.controller import Controller
from lefleet.loop.rules import begin_rules
from lefleet.loop.runs import find, resume
from lefleet.records import (
    ApprovalAnswer,
    ComparisonRecord,
    Decision,
    ExpertDemos,
    GateResult,
    RunConfig,
)
from tests.loop.states import decision, gate, proposal, record, result
from tests.samples import comparison_record, evaluation_record

REQUEST = ExpertDemos(tasks=("push",))


class Waiting:
    """A run whose second candidate was shown to be better, without a controller."""

    def __init__(self, workdir: Path, of: RunConfig) -> None:
        self.workdir, self.name, self.folder = workdir, of.name, workdir / of.name
        self.config = of
        self.ledger = open_ledger(workdir)
        rules = stored(begin_rules(workdir, of, None))
        self.ledger.create_run(self.name, msgspec.to_builtins(of), None, rules)
        self.play()

    def play(self) -> None:
        """All that the run did before it asks."""
        self.evaluate(0, 2)
        self.ledger.record_decision(self.name, decision(0, "baseline", "c0"))
        self.evaluate(1, 3)
        self.judge(1, gate("better", pairs=20, wins=10))

    def evaluate(self, cycle: int, successes: int) -> None:
        """A cycle up to its evaluation, with so many successes of 4."""
        self.ledger.record_proposal(self.name, proposal(cycle, self.config))
        self.commit(cycle, "collect", record(cycle, "collect"))
        self.commit(cycle, "train", record(cycle, "train"))
        found = result(successes, cycle)
        found = msgspec.structs.replace(found, per_task={"push": found.overall})
        self.commit(cycle, "evaluate", evaluation_record(result=found))

    def judge(self, cycle: int, verdict: GateResult) -> ComparisonRecord:
        judged = comparison_record(candidate=f"c{cycle}", gate=verdict)
        self.commit(cycle, "gate", judged)
        return judged

    def commit(self, cycle, stage, made) -> None:
        attempt = self.ledger.start_attempt(self.name, cycle, stage, REQUEST)
        self.ledger.commit_stage(attempt, made)

    def control(self) -> int:
        """In this process. The ledger is closed: whoever copies it afterwards would break the locks
        of one that is open here."""
        controller = Controller(self.workdir, self.name)
        with closing(controller._ledger):
            return controller.run()

    @property
    def state(self) -> str:
        return self.ledger.run(self.name).state

    def answer(self, said: ApprovalAnswer, number: int | None = None) -> str:
        record_answer(self.ledger, self.workdir, find(self.ledger, self.name), said, number)
        return resume(self.ledger, self.workdir, find(self.ledger, self.name))

    def decided(self) -> Decision:
        return self.ledger.decisions(self.name)[-1]

    def kinds(self) -> list[str]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [json.loads(line)["kind"] for line in lines]


class Stuck(Waiting):
    """A run whose second and third candidate were not shown to be better: it asks for the next
    rung where two such gates are enough."""

    def play(self) -> None:
        self.evaluate(0, 2)
        self.ledger.record_decision(self.name, decision(0, "baseline", "c0"))
        self.evaluate(1, 3)
        judged = self.judge(1, gate(pairs=20, wins=4, losses=3))
        self.ledger.record_decision(self.name, decision(1, "iterate", "c0", gate=judged.gate))
        self.evaluate(2, 2)
        self.judge(2, gate(pairs=20, wins=3, losses=3))
