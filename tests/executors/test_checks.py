"""What is found wrong with a cluster before a run begins, without one."""

import importlib.util
import sys

import pytest

from lefleet.cluster.jobs import ClusterJob
from lefleet.errors import BadInput
from lefleet.executors import checks
from lefleet.executors.checks import NodeReport, examine_cluster
from lefleet.executors.ray_jobs import ended
from lefleet.loop.config import config_of
from lefleet.records.executor import ExecutorPlan, StageResources

RAY = {"type": "ray", "address": "http://127.0.0.2:9"}


def test_a_node_with_another_work_folder_is_named(tmp_path):
    python = sys.executable
    assert "cannot use the work folder" in checks._look(str(tmp_path / ".probe"), "n", python)
    with checks._asking_folder(tmp_path) as folder:
        nonce = checks._nonce_of(folder)
        assert checks._look(str(folder), nonce, python) == ""
        assert "has no /no/python" in checks._look(str(folder), nonce, "/no/python")
        assert "another folder" in checks._look(str(folder), "other", python)
        assert (folder / "nonce").stat().st_mode & 0o077 == 0, "as the fence of a stage"
        (folder / "lock").unlink()
        assert "does not see locks" in checks._look(str(folder), nonce, python)
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_cannot_work_is_refused_with_the_remedy(tmp_path, monkeypatch):
    lame = NodeReport(name="n2", resources={"CPU": 4.0}, problem="has another folder at /x")
    monkeypatch.setattr(checks, "_probe", lambda *_: [lame])
    monkeypatch.setattr(checks, "require_reachable", lambda _: None)
    with pytest.raises(BadInput, match=r"address: node n2 has another folder at /x\. Let the same"):
        examine_cluster(ExecutorPlan(**RAY), tmp_path, "cpu")


@pytest.mark.parametrize(
    ("reserved", "field"), [({}, "train"), ({"train": StageResources(gpus=1.0)}, "worker")]
)
def test_what_works_on_a_gpu_has_to_reserve_one(tmp_path, reserved, field):
    plan = ExecutorPlan(**RAY, resources=reserved)
    with pytest.raises(BadInput, match=rf"resources\.{field}: it works on cuda and reserves no G"):
        examine_cluster(plan, tmp_path, "cuda")


def test_a_missing_package_is_named_first(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"executor\.type: the package ray .* pip install"):
        examine_cluster(ExecutorPlan(**RAY), tmp_path, "cpu")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"executor": {"type": "ray"}}, "executor.address: '' is not the address"),
        ({"executor": {**RAY, "address": "10.0.0.5:8265"}}, "is not the address"),
        ({"executor": RAY, "device": "auto"}, "device: auto does not say"),
        ({"executor": {**RAY, "resources": {"trian": {}}}}, "trian"),
        ({"executor": {**RAY, "resources": {"train": {"gpus": -1}}}}, "gpus"),
    ],
)
def test_a_config_that_no_cluster_could_carry_out_is_refused(changes, words):
    fields = {"name": "a", "ladder": [{"name": "tiny"}], **changes}
    with pytest.raises(BadInput, match=words):
        config_of(fields, "file")


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        (ClusterJob("FAILED", "node died"), 0, "FAILED on the cluster: node died"),
        (ClusterJob("STOPPED", "by hand", 143), 0, "STOPPED on the cluster"),
        (ClusterJob("FAILED", "", 137), -9, "killed by signal 9"),
        (ClusterJob("FAILED", "", -9), -9, "killed by signal 9"),
        (ClusterJob("FAILED", "said", 2), 2, "exited with code 2"),
        (ClusterJob("SUCCEEDED", "", 0), 0, "without a record"),
    ],
)
def test_how_a_job_ended_decides_whether_the_attempt_failed_or_is_gone(job, code, words):
    state = ended(job)
    assert (state.phase, state.code) == ("ended", code)
    assert words in state.words
