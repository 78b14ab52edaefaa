"""Two real checkpoints, real episodes, and an early end."""

import json
import os
import shutil
import signal
import time

import pytest

from lefleet.errors import BadInput, StageFailed
from lefleet.records import CompareRequest, SeedBlock
from lefleet.stages import run_stage
from lefleet.stages.compare import require_fresh
from lefleet.stages.folder import StageFolder
from lefleet.stages.references import find_checkpoint
from lefleet.stages.run import start
from lefleet.stages.verdict import gate_order
from tests.conftest import TASKS


def request(checkpoint, baseline, **changes) -> CompareRequest:
    values = {"tasks": TASKS, "max_pairs": 60, "min_effect": 0.3}
    return CompareRequest(checkpoint=str(checkpoint), baseline=str(baseline), **values | changes)


def test_a_trained_policy_is_better_than_an_untrained_one_after_few_pairs(comparison):
    record = json.loads((comparison / "record.json").read_text())
    gate = record["gate"]
    assert gate["verdict"] == "better"
    assert gate["pairs"] < 60
    assert gate["p_value"] <= 0.05
    assert record["episodes"] >= 2 * gate["pairs"]
    assert sum(task["pairs"] for task in record["per_task"].values()) == gate["pairs"]


def test_both_checkpoints_begin_every_pair_in_the_same_state(comparison):
    lines = [json.loads(line) for line in (comparison / "episodes.jsonl").read_text().splitlines()]
    starts = {(line["policy"], line["task"], line["seed"]): line["start"] for line in lines}
    pairs = {(task, seed) for _, task, seed in starts}
    both = [pair for pair in pairs if all((role, *pair) in starts for role in ROLES)]
    assert both
    assert all(starts[("candidate", *pair)] == starts[("baseline", *pair)] for pair in both)
    assert len({(task, start) for (_, task, _), start in starts.items()}) == len(pairs)


ROLES = ("candidate", "baseline")


def test_a_killed_comparison_goes_on_to_the_same_verdict(comparison, checkpoint, weak, tmp_path):
    """With two workers, where the other comparison had one."""
    folder, asked = tmp_path / "compare", request(checkpoint, weak, workers=2)
    with StageFolder(folder, asked):
        pass
    child = start(folder)
    episodes = folder / "episodes.jsonl"
    deadline = time.monotonic() + 300
    while not episodes.exists() or episodes.read_bytes().count(b"\n") < 5:
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    before = episodes.read_bytes()
    record = run_stage(asked, folder)
    assert episodes.read_bytes().startswith(before[: before.rindex(b"\n") + 1])
    whole = json.loads((comparison / "record.json").read_text())
    assert record.gate.pairs == whole["gate"]["pairs"]
    assert [look.log_e for look in record.looks] == [look["log_e"] for look in whole["looks"]]


def test_a_checkpoint_is_no_better_than_itself(weak, tmp_path):
    asked = request(weak, weak, tasks=("push",), max_pairs=2, workers=1)
    record = run_stage(asked, tmp_path / "same")
    assert (record.gate.verdict, record.gate.wins, record.gate.losses) == ("inconclusive", 0, 0)
    assert record.gate.difference == 0.0


def test_episodes_are_not_kept_where_the_baseline_changed_meanwhile(checkpoint, weak, tmp_path):
    copied = tmp_path / "baseline"
    shutil.copytree(find_checkpoint(str(weak), "baseline").path, copied)

    def change_it(update):
        if update.unit == "pairs":
            (copied / "model.safetensors").write_bytes(b"new")

    asked = request(checkpoint, copied, tasks=("push",), max_pairs=1, workers=1)
    with pytest.raises(StageFailed, match="baseline: its content has changed"):
        run_stage(asked, tmp_path / "compare", change_it)
    assert (tmp_path / "compare" / "episodes.jsonl").read_bytes() == b""


@pytest.mark.parametrize("block", [SeedBlock.COLLECT, SeedBlock.EVALUATE, SeedBlock.IMPROVE])
def test_seeds_of_data_and_of_the_shown_rate_are_refused(block):
    with pytest.raises(BadInput, match="seed"):
        require_fresh(int(block) + 5)


@pytest.mark.parametrize("block", [SeedBlock.GATE, SeedBlock.COMPARE])
def test_seeds_for_judging_are_fresh(block):
    require_fresh(int(block) + 5)


@pytest.mark.parametrize(("states", "pairs"), [(0, 60), (10, 30), (50, 60)])
def test_a_finite_set_of_initial_states_is_used_once(states, pairs):
    order = gate_order(request("a", "b", initial_states=states), ("x-0", "x-1", "x-2"))
    assert len(order) == len(set(order)) == pairs


def test_a_refused_comparison_leaves_nothing(checkpoint, tmp_path):
    with pytest.raises(BadInput, match="baseline"):
        run_stage(request(checkpoint, tmp_path / "nothing"), tmp_path / "compare")
    assert not (tmp_path / "compare").exists()
    with pytest.raises(BadInput, match="alpha"):
        run_stage(request(checkpoint, checkpoint, alpha_better=0.9), tmp_path / "compare")
