"""A run in a ledger with a number of decided cycles, made of small records."""

from pathlib import Path

import msgspec

from lefleet.ledger import Ledger, open_ledger
from lefleet.records import CompareRequest, Decision, EvaluateRequest, RunConfig, Rung, TrainRequest
from tests.loop.states import digest, gate
from tests.samples import checkpoint_record, comparison_record, evaluation_record, policy_result


def run_config(*track: str) -> RunConfig:
    return RunConfig(name="r", tasks=("push",), ladder=(Rung(name="small"),), track=track)


def begin(workdir: Path, *track: str) -> Ledger:
    ledger = open_ledger(workdir)
    ledger.create_run("r", msgspec.to_builtins(run_config(*track)))
    (workdir / "r").mkdir()
    return ledger


def decide(ledger: Ledger, cycle: int, *, wandb_problem: str = "") -> None:
    """A cycle with a training, an evaluation, from the second on a gate, and a decision."""
    trained = checkpoint_record(digest=digest(cycle), wandb_problem=wandb_problem)
    evaluated = evaluation_record(result=policy_result(cycle + 1))
    stages = [
        ("train", TrainRequest(dataset="d"), trained),
        ("evaluate", EvaluateRequest(checkpoint="c"), evaluated),
    ]
    if cycle:
        request = CompareRequest(checkpoint="c", baseline="b")
        stages.append(("gate", request, comparison_record(gate=gate("better"))))
    for stage, request, record in stages:
        attempt = ledger.start_attempt("r", cycle, stage, request)
        ledger.commit_stage(attempt, record)
    decision = Decision(
        cycle=cycle,
        decision="promote" if cycle else "baseline",
        why=f"why {cycle}",
        rung=0,
        candidate=digest(cycle),
        blessed=digest(cycle),
        gate=gate("better") if cycle else None,
    )
    ledger.record_decision("r", decision)
