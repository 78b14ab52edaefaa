"""Ledgers of runs that were never run, made of real records: what a run of these results leaves."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from lefleet.ledger import Ledger
from lefleet.records import (
    ApprovalAnswer,
    AttemptCounts,
    CompareRequest,
    Decision,
    EvaluateRequest,
    ExpertDemos,
    GateLevel,
    ImproveRequest,
    PolicyResult,
    Proposal,
    RunConfig,
    Rung,
    TaskPairs,
    TrainRequest,
)
from lefleet.stages.contract import task_text
from lefleet.stages.evaluate import rate_of
from tests.samples import (
    checkpoint_record,
    comparison_record,
    dataset_record,
    episode,
    evaluation_record,
    gate_result,
    mix_record,
)

EPISODES = 20
PER_RUN = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """What came of a cycle."""

    demos: int
    """Of each task, in all."""
    successes: Mapping[str, int]
    """Of 20 episodes, by task."""
    decision: str = "iterate"
    verdict: str = ""
    """Of its gate against the blessed checkpoint; empty where there was none."""
    wins: int = 5
    losses: int = 0
    worse: tuple[str, ...] = ()
    """Tasks that became worse, and vetoed a better verdict."""
    steps: int = 1000
    rung: int = 0
    continues: bool = True
    """Whether the training continued that of the cycle before."""
    attempts: int = 0
    """Of the expert, for these demonstrations; 0: as many."""
    made: Mapping[str, int] = field(default_factory=dict)
    """Corrections that the blessed policy made at its end, by task."""
    answer: ApprovalAnswer | None = None
    proposal: str = ""
    text: Mapping[str, str] = field(default_factory=dict)
    """Texts that stand for tasks in the data, where they are not those of the simulation."""


class PlayedRun:
    """Plays cycles into a ledger, one by one."""

    def __init__(self, ledger: Ledger, workdir: Path, name: str, **changes) -> None:
        values = {"name": name, "tasks": ("easy3",), "ladder": (Rung(name="small-act"),)}
        self.config = RunConfig(**values | changes)
        self.ledger, self.name, self.folder = ledger, name, workdir / name
        self.cycles = 0
        self._blessed = -1
        self._with_corrections: list[int] = []
        self._made: Counter[str] = Counter()
        ledger.create_run(name, msgspec.to_builtins(self.config))

    def digest(self, cycle: int) -> str:
        return f"{self.name}-{cycle}".ljust(64, "0")

    def play(self, *cycles: Cycle) -> "PlayedRun":
        for one in cycles:
            self._play(one)
        return self

    def end(self, state: str = "finished", reason: str = "all cycles are done") -> "PlayedRun":
        self.ledger.set_run_state(self.name, state, reason)
        return self

    def _play(self, one: Cycle) -> None:
        index, tasks = self.cycles, list(one.successes)
        self.cycles += 1
        if one.proposal:
            proposal = Proposal(
                cycle=index,
                action="demonstrations",
                episodes=dict.fromkeys(tasks, one.demos),
                source="schedule",
                why=one.proposal,
            )
            self.ledger.record_proposal(self.name, proposal)
        made = [str(self.folder / f"cycle_{n}" / "improve/added") for n in self._with_corrections]
        self._commit(
            "collect",
            ExpertDemos(tasks=tuple(tasks) or ("push",), add_to=tuple(made)),
            self._dataset(one, tasks),
        )
        checkpoint = checkpoint_record(
            digest=self.digest(index),
            steps=one.steps,
            init_digest=self.digest(index - 1) if index and one.continues else "",
        )
        self._commit("train", TrainRequest(dataset="x"), checkpoint)
        self._evaluate(one)
        gate = self._gate(one) if one.verdict else None
        if one.answer:
            asked = self.ledger.approvals.ask(
                self.name,
                "promote",
                self.digest(index),
                cycle=index,
                text=f"Promote the checkpoint of cycle {index}?",
                evidence={},
                timeout_s=0.0,
                on_timeout="reject",
            )
            self.ledger.approvals.answer(asked, one.answer)
        if one.decision in ("baseline", "promote"):
            self._blessed = index
        decision = Decision(
            cycle=index,
            decision=one.decision,
            why=f"because of cycle {index}",
            rung=one.rung,
            candidate=self.digest(index),
            blessed=self.digest(self._blessed) if self._blessed >= 0 else "",
            gate=gate,
            level=GateLevel(better=0.03, worse=0.03, guarantee="run", source="planned", share=0.03)
            if gate
            else None,
            answer=one.answer,
        )
        self.ledger.record_decision(self.name, decision)
        if one.made:
            self._with_corrections.append(index)
            self._made.update(one.made)
            mix = mix_record(
                added=dict(one.made),
                tallies={
                    task: AttemptCounts(kept=n, attempted=2 * n) for task, n in one.made.items()
                },
                note="",
            )
            self._commit("improve", ImproveRequest(checkpoint="x", demos="x"), mix, index)

    def _dataset(self, one: Cycle, tasks: Sequence[str]):
        texts = {task: one.text.get(task, task_text(task)) for task in tasks}
        return dataset_record(
            digest=f"data-{self.name}-{self.cycles}",
            tasks={texts[task]: one.demos + self._made[task] for task in tasks},
            episodes=tuple(range(one.demos * len(tasks))),
            tallies={
                task: AttemptCounts(kept=one.demos, attempted=one.attempts or one.demos)
                for task in tasks
            },
        )

    def _evaluate(self, one: Cycle) -> None:
        index, first = self.cycles - 1, 100_000_000 + PER_RUN * self.config.seed
        outcomes = {
            task: [number < count for number in range(EPISODES)]
            for task, count in one.successes.items()
        }
        rates = {task: rate_of(found) for task, found in outcomes.items()}
        result = PolicyResult(
            checkpoint="/checkpoint",
            digest=self.digest(index),
            overall=rate_of(
                [success for found in outcomes.values() for success in found] or [True]
            ),
            per_task=rates,
            mean_progress=0.5,
            mean_length=50.0,
        )
        record = evaluation_record(
            result=result, tasks=tuple(outcomes), first_seed=first, episodes_per_task=EPISODES
        )
        episodes = [
            episode(
                task,
                first + number,
                success=success,
                video=f"videos/{number}.mp4" if number == EPISODES - 1 else "",
            )
            for task, found in outcomes.items()
            for number, success in enumerate(found)
        ]
        self._commit("evaluate", EvaluateRequest(checkpoint="x"), record, index, episodes)

    def _gate(self, one: Cycle):
        index, pairs = self.cycles - 1, 50
        gate = gate_result(
            verdict=one.verdict,
            ended="vetoed"
            if one.worse
            else "futile"
            if one.verdict == "inconclusive"
            else one.verdict,
            worse_tasks=one.worse,
            pairs=pairs,
            wins=one.wins,
            losses=one.losses,
        )
        rate = rate_of([True] * 10)
        tasks = {
            task: TaskPairs(
                pairs=pairs // len(one.successes), wins=1, losses=0, candidate=rate, baseline=rate
            )
            for task in one.successes
        }
        record = comparison_record(
            gate=gate,
            candidate=self.digest(index),
            baseline=self.digest(self._blessed),
            per_task=tasks,
        )
        self._commit("gate", CompareRequest(checkpoint="x", baseline="y"), record, index)
        return gate

    def _commit(self, stage, request, record, index=None, episodes=()) -> None:
        cycle = self.cycles - 1 if index is None else index
        attempt = self.ledger.start_attempt(self.name, cycle, stage, request)
        self.ledger.commit_stage(attempt, record, episodes)


def even(successes: int, *tasks: str) -> dict[str, int]:
    """The same number of successes for each task."""
    return dict.fromkeys(tasks or ("push", "pick-place"), successes)


def demo_like(ledger: Ledger, workdir: Path, name: str = "demo", **changes) -> PlayedRun:
    """Three cycles like those of the demo: baseline, promotion, promotion."""
    run = PlayedRun(ledger, workdir, name, **changes)
    run.play(
        Cycle(
            demos=2, successes={"push": 0, "pick-place": 0, "door-open": 20}, decision="baseline"
        ),
        Cycle(
            demos=8,
            successes={"push": 18, "pick-place": 14, "door-open": 19},
            decision="promote",
            verdict="better",
            wins=10,
        ),
        Cycle(
            demos=25,
            successes={"push": 20, "pick-place": 20, "door-open": 20},
            decision="promote",
            verdict="better",
        ),
    )
    return run.end()
