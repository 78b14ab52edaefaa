"""Small runs without a disk: configs, cycles and whole runs played through `next_step`."""

from collections.abc import Callable
from dataclasses import replace

from lefleet.loop.state import CycleState, RunState
from lefleet.loop.steps import Decide, EndRun, Propose, RunStage, Step, next_step
from lefleet.records import (
    AttemptCounts,
    Decision,
    GateResult,
    OriginData,
    PolicyResult,
    Proposal,
    Rate,
    Record,
    RunConfig,
    Rung,
    RunOrigin,
)
from tests.samples import (
    checkpoint_record,
    comparison_record,
    dataset_record,
    evaluation_record,
    gate_result,
    mix_record,
)


def config(**changes) -> RunConfig:
    values = {"name": "r", "tasks": ("push",), "ladder": (Rung(name="small"), Rung(name="big"))}
    return RunConfig(**values | changes)


def digest(cycle: int) -> str:
    """Of the checkpoint of a cycle."""
    return f"c{cycle}"


def result(successes: int, cycle: int = 0, episodes: int = 4) -> PolicyResult:
    share = successes / episodes
    rate = Rate(successes=successes, episodes=episodes, rate=share, interval=(0.0, 1.0))
    return PolicyResult(
        checkpoint=f"/{digest(cycle)}",
        digest=digest(cycle),
        overall=rate,
        per_task={},
        mean_progress=share,
        mean_length=10.0,
    )


def record(cycle: int, stage: str, successes: int = 2) -> Record:
    match stage:
        case "collect":
            return dataset_record(tallies={"push": AttemptCounts(kept=2, attempted=3)})
        case "train":
            return checkpoint_record(digest=digest(cycle), path=f"/{digest(cycle)}")
        case "improve":
            return mix_record(tallies={"push": AttemptCounts(kept=1, attempted=5)})
        case "evaluate":
            return evaluation_record(result=result(successes, cycle))
        case _:
            return comparison_record(candidate=digest(cycle))


def gate(verdict: str = "inconclusive", ended: str = "", **changes) -> GateResult:
    values = {
        "verdict": verdict,
        "ended": ended or ("futile" if verdict == "inconclusive" else verdict),
        "pairs": 10,
        "wins": 1,
        "p_value": 0.75,
        "alpha_better": 0.05,
        "alpha_worse": 0.05,
        "max_pairs": 20,
    }
    return gate_result(**values | changes)


def decision(cycle: int, outcome: str, blessed: str = "", rung: int = 0, **changes) -> Decision:
    values = {"why": outcome, "candidate": digest(cycle), "gate": None}
    return Decision(cycle=cycle, decision=outcome, blessed=blessed, rung=rung, **values | changes)


def proposal(cycle: int, of: RunConfig, **changes) -> Proposal:
    """The one that follows the schedule."""
    actions = {"none": "demonstrations", "harvest": "harvest", "correct": "corrections"}
    values = {"action": actions[of.improve.method], "episodes": {}, "source": "schedule", "why": ""}
    return Proposal(cycle=cycle, **values | changes)


def cycle(index: int, *stages: str, decided: Decision | None = None) -> CycleState:
    return CycleState(index, {stage: record(index, stage) for stage in stages}, decided)


def origin(**changes) -> RunOrigin:
    """Cycle 2 of a run `a`, whose three cycles used seeds."""
    values = {
        "run": "a",
        "cycle": 2,
        "checkpoint": checkpoint_record(digest="a2", path="/a2"),
        "result": result(3),
        "rung": Rung(name="small"),
        "data": (OriginData(path="/a/data", digest="d"),),
        "seed_cycles": 3,
    }
    return RunOrigin(**values | changes)


def state(*cycles: CycleState, of: RunConfig | None = None, **changes) -> RunState:
    of = of or config()
    values = {
        "device_seconds": 0.0,
        "stop_requested": False,
        "planned_cycles": of.budgets.cycles,
    }
    return RunState(of, list(cycles) or [cycle(0)], **values | changes)


BLESSING = ("baseline", "promote")
VERDICTS = {"promote": "better", "rollback": "worse"}


def play(
    of: RunConfig,
    outcomes: str,
    *,
    skip: tuple[str, ...] = (),
    watch: Callable[[RunState, Step], None] = lambda state, step: None,
) -> list[Step]:
    """All steps of a run whose cycles end with the given decisions, one word for each."""
    words = outcomes.split()
    now, steps = state(of=of), []
    while not steps or not isinstance(steps[-1], EndRun):
        step = next_step(now)
        watch(now, step)
        steps.append(step)
        now = after(now, step, words, skip)
    return steps


def after(now: RunState, step: Step, words: list[str], skip: tuple[str, ...]) -> RunState:
    """The state that the ledger holds once `step` is done."""
    cycles = list(now.cycles)
    if isinstance(step, EndRun):
        return now
    if step.cycle == len(cycles):
        cycles.append(CycleState(step.cycle, {}, None))
    last = cycles[-1]
    if isinstance(step, Propose):
        cycles[-1] = replace(last, proposal=proposal(step.cycle, now.config))
    elif isinstance(step, Decide):
        word, before = words[step.cycle], now.blessed()
        blessed = digest(step.cycle) if word in BLESSING else before.digest if before else ""
        found = gate(VERDICTS.get(word, "inconclusive")) if "gate" in last.records else None
        decided = decision(step.cycle, word, blessed, now.rung(), gate=found)
        cycles[-1] = replace(last, decision=decided)
    elif isinstance(step, RunStage) and step.stage in skip:
        cycles[-1] = replace(last, skipped=last.skipped | {step.stage})
    else:
        done = {**last.records, step.stage: record(step.cycle, step.stage)}
        cycles[-1] = replace(last, records=done)
    return replace(now, cycles=cycles)
