"""SIGKILL on a cluster of two nodes: of controllers, drivers, bodies, workers, nodes, the head."""

import msgspec
import pytest

from lefleet.records import EvaluatePlan
from tests.executors.cluster_fuzz import ClusterFuzz, TwoNodes
from tests.loop.fuzz import tiny_config

pytestmark = pytest.mark.chaos


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    nodes = TwoNodes(tmp_path_factory.mktemp("nodes"))
    yield nodes
    nodes.end()


def longer(name: str):
    """A run whose evaluation has several batches, so that a node is lost in the middle of one."""
    plan = EvaluatePlan(episodes_per_task=40, videos_per_task=0)
    return msgspec.structs.replace(tiny_config(name), evaluate=plan)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("controller", {"controller": 6}),
        ("driver", {"driver": 4}),
        ("body", {"stage": 3, "train": 2, "child": 3}),
        ("node", {"node": 3}),
        ("head", {"head": 2}),
        ("all", {"controller": 8, "driver": 4, "stage": 2, "train": 2, "child": 4, "node": 2}),
    ],
)
def test_a_run_survives_kills(two_nodes, name, wanted):
    fuzz = ClusterFuzz(two_nodes, longer(f"kill-{name}"), seed=len(name))
    fuzz.attack(wanted, deadline_s=3000)
    fuzz.assert_sound()
    assert sum(fuzz.kills.values()) > 0
