"""A candidate that was trained on poisoned data is rolled back, and the data is not used again."""

import json
from itertools import combinations
from pathlib import Path

import pytest

from lefleet.ledger import open_ledger
from lefleet.records import (
    Budgets,
    EvaluatePlan,
    ExpertGrowth,
    GatePlan,
    ImprovePlan,
    RunConfig,
    Rung,
)
from tests.loop.test_end_to_end import config_of, run

POISON = """
import sys
if "lefleet.rollouts.worker" in sys.orig_argv:
    from lefleet.rollouts import episode
    write = episode._write_frames
    def poisoned(path, taught):
        if "/improve/" in str(path):
            taught = [(observation, -label) for observation, label in taught]
        write(path, taught)
    episode._write_frames = poisoned
"""


@pytest.mark.chaos
def test_a_poisoned_mix_is_rolled_back_and_dropped(tmp_path, plant):
    plant(POISON)
    config = RunConfig(
        name="poisoned",
        tasks=("push",),
        collect=ExpertGrowth(episodes_per_task=(20, 21, 22)),
        ladder=(Rung(name="small", steps=1000),),
        evaluate=EvaluatePlan(episodes_per_task=20, videos_per_task=0),
        gate=GatePlan(max_pairs=60, min_effect=0.3),
        improve=ImprovePlan(method="harvest", episodes_per_task=60, mixing_ratio=0.75),
        budgets=Budgets(cycles=3),
    )
    workdir = tmp_path / "runs"
    finished = run("run", "-c", config_of(tmp_path, config), "--workdir", workdir)
    assert finished.returncode == 0, finished.stderr
    ledger = open_ledger(workdir)
    baseline, poisoned, clean = ledger.decisions("poisoned")
    assert (baseline.decision, poisoned.decision) == ("baseline", "rollback")
    assert poisoned.blessed == baseline.candidate
    assert poisoned.gate.pairs < 60, "a clear regression is seen early"
    requests = {
        cycle: json.loads((workdir / f"poisoned/cycle_{cycle}/collect/request.json").read_text())
        for cycle in (1, 2)
    }
    dropped = str(workdir / "poisoned/cycle_0/improve/added")
    assert dropped in requests[1]["add_to"]
    assert dropped not in requests[2]["add_to"]
    assert clean.decision in ("iterate", "promote")
    assert_seeds_are_fresh(workdir / "poisoned")


def assert_seeds_are_fresh(run_folder: Path) -> None:
    """No gate of the run used a seed that anything else used."""
    used = {}
    for file in run_folder.glob("cycle_*/*/*s.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        stage = file.parent
        block = "evaluate" if stage.name == "evaluate" else f"{stage.parent.name}/{stage.name}"
        used.setdefault(block, set()).update(line["seed"] for line in lines)
    assert len([block for block in used if block.endswith("/gate")]) == 2
    for one, other in combinations(used, 2):
        assert not used[one] & used[other], (one, other)
