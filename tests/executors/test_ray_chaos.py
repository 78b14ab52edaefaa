"""A cluster of two nodes: the demo as on one machine, and SIGKILL of controllers, drivers, bodies,
workers, nodes and the head."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from lefleet.ledger import open_ledger
from lefleet.records import (
    DatasetRecord,
    Decision,
    EvaluatePlan,
    EvaluationRecord,
    Rate,
    RunConfig,
    Rung,
)
from tests.executors.cluster_fuzz import ClusterFuzz, TwoNodes
from tests.loop.fuzz import tiny_config

pytestmark = pytest.mark.chaos


@pytest.fixture
def two_nodes(tmp_path):
    nodes = TwoNodes(tmp_path)
    yield nodes
    nodes.end()


class Results(NamedTuple):
    """What a run came to, without its paths and times."""

    decisions: list[Decision]
    """With the digests of candidates, and what their gates found."""
    datasets: list[str]
    rates: list[dict[str, Rate]]
    attempts: int


def results_of_demo(workdir: Path, *flags: str) -> Results:
    argv = [sys.executable, "-m", "lefleet", "demo", f"--workdir={workdir}", *flags]
    subprocess.run(argv, check=True, timeout=1800)
    ledger = open_ledger(workdir)
    records = [one.record for one in ledger.attempts("demo")]
    return Results(
        ledger.decisions("demo"),
        [one.digest for one in records if isinstance(one, DatasetRecord)],
        [one.result.per_task for one in records if isinstance(one, EvaluationRecord)],
        len(records),
    )


def test_the_demo_on_two_nodes_equals_that_of_one_machine(two_nodes):
    plan = two_nodes.plan()
    flags = {"type": plan.type, "address": plan.address, "token_file": plan.token_file}
    there = results_of_demo(
        two_nodes.workdir, *(f"--executor.{name}={value}" for name, value in flags.items())
    )
    here = results_of_demo(two_nodes.workdir / "here")
    assert there == here
    assert [one.cycle for one in here.decisions] == [0, 1, 2]


def longer(name: str, steps: int = 400) -> RunConfig:
    """A run with several batches of episodes and several checkpoints, so that there is a middle."""
    return msgspec.structs.replace(
        tiny_config(name),
        ladder=(Rung(name="tiny", steps=steps, batch_size=8),),
        evaluate=EvaluatePlan(episodes_per_task=100, videos_per_task=0),
    )


ANOTHER = ["gone", "committed"]
LONG = 4000
"""Steps of a training that works on for longer than Ray takes to notice the loss of a node, or to
start another head."""


@pytest.mark.parametrize(
    ("lost", "stage", "pinned", "steps", "ends"),
    [
        pytest.param("node", "train", True, 400, ANOTHER, id="node-of-a-training"),
        pytest.param("node", "evaluate", True, 400, ANOTHER, id="node-of-an-evaluation"),
        pytest.param("node", "evaluate", False, 400, ["committed"], id="node-of-workers-only"),
        pytest.param("raylet", "train", True, LONG, ANOTHER, id="raylet-of-a-training"),
        pytest.param("sleeper", "train", True, LONG, ANOTHER, id="suspended-node-of-a-training"),
        pytest.param("head", "train", True, LONG, ANOTHER, id="head-beside-a-training"),
        pytest.param("head", "evaluate", False, 400, ANOTHER, id="head-of-an-evaluation"),
    ],
)
def test_a_run_survives_the_loss_of_a_node(two_nodes, lost, stage, pinned, steps, ends):
    where = (stage,) if pinned else ()
    config = longer("lost", steps)
    fuzz = ClusterFuzz(two_nodes, config, seed=1, pinned=where, stage=stage)
    fuzz.attack({lost: 1}, deadline_s=600)
    fuzz.assert_sound()
    assert fuzz.kills == {lost: 1}
    assert fuzz.ends() == {"collect": ["committed"], "train": ["committed"]} | {
        "evaluate": ["committed"],
        stage: ends,
    }


def test_a_run_survives_kills_of_everything_and_of_its_ledger(two_nodes, postgres_server):
    """Executor ray, ledger on Postgres."""
    fuzz = ClusterFuzz(two_nodes, longer("all"), seed=4, extended=2, server=postgres_server)
    wanted = {
        "controller": 20,
        "driver": 8,
        "stage": 8,
        "train": 5,
        "child": 9,
        "node": 5,
        "raylet": 2,
        "head": 3,
        "server": 5,
    }
    fuzz.attack(wanted, deadline_s=3000)
    fuzz.assert_sound()
    print("kills:", dict(fuzz.kills))
    assert sum(fuzz.kills.values()) >= 60
    assert set(fuzz.kills) == set(wanted)
