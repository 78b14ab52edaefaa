"""Stages on a real Ray cluster of this machine: submitted, attached to, lost, ended, and equal to
those of one machine. One file, so that one worker of the tests starts one cluster."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from lefleet import EvaluateRequest, run_stage
from lefleet.cluster.fence import read_fence
from lefleet.cluster.jobs import Jobs
from lefleet.errors import BadInput, ClusterUnreachable
from lefleet.executors import for_plan, ray_jobs
from lefleet.executors.checks import examine_cluster, require_reachable
from lefleet.ledger import open_ledger
from lefleet.loop.runs import begin
from lefleet.loop.stage_process import Cancellation, StageCancelled, StageGone, carry_out
from lefleet.process import processes_marked
from lefleet.records import EpisodeRecord, encode
from lefleet.records.executor import ExecutorPlan, StageResources
from lefleet.stages.folder import (
    Journal,
    StageFolder,
    committed,
    is_locked,
    read_request,
)
from lefleet.stages.progress import WAITING, read_progress
from lefleet.stages.run import STAGE_MARK
from tests.conftest import TASKS
from tests.loop.fuzz import tiny_config
from tests.loop.test_end_to_end import wait_for

SUBMIT = """
import os, signal, sys
from pathlib import Path
import msgspec
from lefleet.executors import for_plan
from lefleet.records.executor import ExecutorPlan
plan = msgspec.json.decode(sys.argv[1], type=ExecutorPlan)
for_plan(plan).start(Path(sys.argv[2]), "evaluate", 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def evaluation(checkpoint: Path) -> EvaluateRequest:
    """Of three batches, so that two workers share them."""
    return EvaluateRequest(
        checkpoint=str(checkpoint), tasks=TASKS, episodes_per_task=1, batch_size=1, workers=2
    )


def episodes(folder: Path) -> list[EpisodeRecord]:
    with Journal(folder / "episodes.jsonl", EpisodeRecord) as journal:
        return sorted(journal.lines, key=lambda line: (line.task, line.seed))


def processes(folder: Path, *words: str) -> list[int]:
    """Living processes with these words in their command line that work in `folder`."""
    found = [pid for pid, name in processes_marked(STAGE_MARK).items() if name == str(folder)]
    return [pid for pid in found if set(words) <= set(command_line(pid))]


def drivers(folder: Path) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if {"drive", str(folder)} <= set(command_line(pid))]


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def launched_again() -> int:
    raise AssertionError("it was to be attached to")


def test_a_stage_is_attached_to_loses_a_worker_and_equals_that_of_one_machine(
    cluster, tmp_path, weak
):
    request, folder = evaluation(weak), tmp_path / "there"
    with StageFolder(folder, request):
        pass
    plan = msgspec.json.encode(cluster.plan).decode()
    submitter = subprocess.run([sys.executable, "-c", SUBMIT, plan, str(folder)], check=False)
    assert submitter.returncode == -signal.SIGKILL
    killed = []

    def kill_a_worker() -> None:
        if not killed and (found := processes(folder, "lefleet.rollouts.worker")):
            os.kill(found[0], signal.SIGKILL)
            killed.append(found[0])

    executor = for_plan(cluster.plan)
    record = carry_out(request, folder, executor, must_end=kill_a_worker, on_launch=launched_again)
    assert killed
    here = run_stage(request, tmp_path / "here")
    assert episodes(folder) == episodes(tmp_path / "here")
    assert record == here
    assert (folder / "request.json").read_bytes() == encode(request)


def not_ended() -> None:
    """Nobody asks for the end of a stage."""


def test_demonstrations_of_several_workers_are_those_of_one_machine(cluster, tmp_path, demos):
    request = read_request(demos)
    asked = msgspec.structs.replace(request, workers=2)
    executor = for_plan(cluster.plan)
    record = carry_out(
        asked, tmp_path / "collect", executor, must_end=not_ended, on_launch=lambda: 1
    )
    here = committed(demos, request)
    assert (record.digest, record.tallies) == (here.digest, here.tallies)


def test_a_gate_keeps_its_order_and_stops_as_early_as_on_one_machine(cluster, tmp_path, comparison):
    request = read_request(comparison)
    asked = msgspec.structs.replace(request, workers=2)
    executor = for_plan(cluster.plan)
    record = carry_out(asked, tmp_path / "gate", executor, must_end=not_ended, on_launch=lambda: 1)
    here = committed(comparison, request)
    assert (record.gate, record.looks, record.per_task) == (here.gate, here.looks, here.per_task)
    assert record.gate.pairs < request.max_pairs


def test_a_killed_driver_is_a_lost_attempt_and_the_next_one_can_be_cancelled(
    cluster, tmp_path, weak
):
    request, folder, executor = evaluation(weak), tmp_path / "s", for_plan(cluster.plan)

    def kill_the_driver() -> None:
        if is_locked(folder):
            os.kill(drivers(folder)[0], signal.SIGKILL)

    with pytest.raises(StageGone, match="signal 9"):
        carry_out(request, folder, executor, must_end=kill_the_driver, on_launch=lambda: 1)
    first = read_fence(folder)
    assert executor.find(folder) is None

    def stop_once_it_works() -> Cancellation | None:
        return Cancellation("stop", "on request") if is_locked(folder) else None

    with pytest.raises(StageCancelled):
        carry_out(request, folder, executor, must_end=stop_once_it_works, on_launch=lambda: 2)
    assert read_fence(folder).token != first.token
    assert not is_locked(folder)
    assert processes(folder) == []
    assert executor.find(folder) is None


@pytest.mark.parametrize("who", ["evaluate", "worker"])
def test_a_stage_says_that_it_or_its_workers_find_no_room(
    cluster, tmp_path, weak, monkeypatch, who
):
    monkeypatch.setattr(ray_jobs, "_STARTING_S", 0.0)
    scarce = {who: StageResources(custom={"nowhere": 1.0})}
    executor = for_plan(msgspec.structs.replace(cluster.plan, resources=scarce))
    waits: list[str] = []

    def until_told() -> Cancellation | None:
        return Cancellation("stop", "on request") if waits else None

    with pytest.raises(StageCancelled):
        carry_out(
            evaluation(weak),
            tmp_path / "evaluate",
            executor,
            must_end=until_told,
            on_launch=lambda: 1,
            on_wait=waits.append,
        )
    assert waits == [WAITING.detail]
    assert read_progress(tmp_path / "evaluate").what == WAITING.detail
    assert executor.find(tmp_path / "evaluate") is None


class Hasty(Jobs):
    """Does not know at first what is there, as where another controller is faster."""

    def __init__(self, plan: ExecutorPlan) -> None:
        super().__init__(plan.address, plan.token_file)
        self._has_looked = False

    def find(self, name: str):
        self._has_looked, was = True, self._has_looked
        return super().find(name) if was else None


def test_a_job_of_the_same_name_is_not_started_twice(cluster, tmp_path):
    jobs, file = Jobs(cluster.plan.address, cluster.plan.token_file), tmp_path / "lines"
    argv = ("sh", "-c", f"echo one >> {file}")
    for asking in (jobs, jobs, Hasty(cluster.plan)):
        asking.submit("twice", argv, StageResources(), 5.0)
    while not jobs.find("twice").has_ended:
        time.sleep(0.2)
    assert file.read_text() == "one\n"


def test_a_run_that_waits_for_room_says_so_and_can_be_stopped(cluster, tmp_path):
    scarce = {"collect": StageResources(custom={"nowhere": 1.0})}
    plan = msgspec.structs.replace(cluster.plan, resources=scarce)
    config = msgspec.structs.replace(tiny_config("r"), executor=plan)
    with closing(open_ledger(tmp_path)) as ledger:
        begin(ledger, tmp_path, config)
        try:
            wait_for(lambda: any(one.waited_s for one in ledger.attempts("r")), "the queue", 120)
        finally:
            ledger.request_stop("r")
            wait_for(lambda: ledger.run("r").state == "stopped", "its end", 120)
        said = [event.data["what"] for event in ledger.events("r") if event.kind == "stage_waits"]
        assert said == [WAITING.detail]
        (attempt,) = ledger.attempts("r")
        assert (attempt.state, attempt.waited_s > 0) == ("cancelled", True)


def test_a_cluster_is_tried_out(cluster, tmp_path):
    found = examine_cluster(cluster.plan, tmp_path, "cpu")
    assert "1 node, 2 CPUs, 0 GPUs" in found.found
    assert found.asks_for_token
    assert list(tmp_path.iterdir()) == []


def test_missing_resources_are_found_before_a_run_begins(cluster, tmp_path):
    greedy = msgspec.structs.replace(
        cluster.plan, resources={"train": StageResources(cpus=1.0, gpus=1.0)}
    )
    with pytest.raises(BadInput, match=r"executor.resources.train: no node has 1 CPU, 1 GPU\."):
        examine_cluster(greedy, tmp_path, "cpu")


@pytest.mark.parametrize(("token", "words"), [("", "wants a token"), ("wrong", "refuses the tok")])
def test_who_has_no_token_is_turned_away(cluster, tmp_path, token, words):
    (tmp_path / "token").write_text(token)
    plan = msgspec.structs.replace(cluster.plan, token_file=str(tmp_path / "token"))
    with pytest.raises(BadInput, match=words):
        require_reachable(plan)


def test_a_cluster_that_does_not_answer_is_unreachable(cluster):
    plan = msgspec.structs.replace(cluster.plan, address="http://127.0.0.2:9")
    with pytest.raises(BadInput, match=r"executor.address: the cluster at .* does not answer"):
        require_reachable(plan)
    with pytest.raises(ClusterUnreachable):
        Jobs(plan.address, plan.token_file).find("any")
