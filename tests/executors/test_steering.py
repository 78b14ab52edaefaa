"""What a controller makes of a cluster's answers, with a head that says what the test wants."""

import pytest

from lefleet.cluster.fence import read_fence
from lefleet.errors import ClusterUnreachable, LeaseLost
from lefleet.executors import for_plan, ray_jobs
from lefleet.loop.stage_process import Cancellation, StageCancelled, StageGone, carry_out
from lefleet.records import ExpertDemos
from lefleet.records.executor import ExecutorPlan
from lefleet.stages.folder import StageFolder
from lefleet.stages.progress import read_progress
from tests.executors.head import NO_JOB, Reply, served

REQUEST = ExpertDemos(tasks=("push",), episodes_per_task=1)
PENDING = Reply(200, b'{"status": "PENDING"}')


@pytest.fixture
def head():
    with served() as made:
        yield made


@pytest.fixture
def folder(tmp_path):
    with StageFolder(tmp_path / "collect", REQUEST):
        pass
    return tmp_path / "collect"


@pytest.fixture
def executor(head):
    return for_plan(ExecutorPlan(type="ray", address=head.address))


def submitted(head, executor, folder):
    """A body whose job the cluster has."""
    head.asked = PENDING
    return executor.start(folder, "collect", 1)


def never() -> None:
    """Nobody asks for the end of a stage."""


def test_a_job_that_the_cluster_does_not_take_is_an_attempt_with_its_reason(head, executor, folder):
    head.told = Reply(500, b"No available agent to submit job")
    with pytest.raises(StageGone, match=r"could not be submitted: .*No available agent"):
        carry_out(REQUEST, folder, executor, must_end=never, on_launch=lambda: 1)


def test_while_the_cluster_does_not_answer_that_is_told_and_a_stop_is_obeyed(
    head, executor, folder, monkeypatch
):
    monkeypatch.setattr(ray_jobs, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(ray_jobs, "_STOP_S", 0.0)
    submitted(head, executor, folder)
    head.asked = Reply(200, b'{"status": "RUNNING"}')
    told: list[str] = []

    def must_end() -> Cancellation | None:
        head.asked = head.told = Reply(503, b"restarting")
        return Cancellation("stop", "on request") if told else None

    with pytest.raises(StageCancelled):
        carry_out(
            REQUEST,
            folder,
            executor,
            must_end=must_end,
            on_launch=lambda: 1,
            on_silence=told.append,
        )
    assert "does not answer: restarting" in told[0]


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_refused_for_a_while_says_nothing_of_the_stage(
    head, executor, folder, status
):
    head.asked = head.told = Reply(status, b"no")
    with pytest.raises(ClusterUnreachable):
        executor.start(folder, "collect", 1)
    with pytest.raises(ClusterUnreachable):
        executor.find(folder)
    executor.cancel({folder})
    assert read_fence(folder).submission == "", "its driver ends when it sees that"


def test_a_job_in_the_queue_waits_and_one_that_was_attached_to_waits_at_once(
    head, executor, folder, monkeypatch
):
    assert submitted(head, executor, folder).look().phase == "running", "Ray may be about to start"
    assert executor.find(folder).look().phase == "waiting"
    monkeypatch.setattr(ray_jobs, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(ray_jobs, "_TELL_EVERY_S", 0.0)
    body = executor.find(folder)
    assert body.look().phase == "waiting"
    head.asked = Reply(503, b"restarting")
    assert body.look().phase == "silent", "it may have begun meanwhile"
    assert "does not answer: restarting" in body.look().words
    assert read_progress(folder).what == "the cluster does not answer"
    head.asked = PENDING
    assert body.look().phase == "waiting"
    head.asked = NO_JOB
    assert body.look() == ("ended", 0, ray_jobs.FORGOTTEN)


@pytest.mark.parametrize("step", ["start", "clear", "cancel"])
def test_a_controller_that_was_replaced_steers_nothing(head, executor, folder, step):
    submitted(head, executor, folder)
    before, wanted = read_fence(folder), len(head.wanted)

    def require_control() -> None:
        raise LeaseLost("Another controller has taken over.")

    replaced = for_plan(executor._plan, require_control)
    calls = {
        "start": lambda: replaced.start(folder, "collect", 2),
        "clear": lambda: replaced.clear(folder),
        "cancel": lambda: replaced.cancel({folder}),
    }
    with pytest.raises(LeaseLost):
        calls[step]()
    assert read_fence(folder) == before
    assert len(head.wanted) == wanted
