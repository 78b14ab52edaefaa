"""The fence: a body that another attempt has replaced neither appends nor commits, and is ended."""

import subprocess
import sys
import time

import pytest

from lefleet.cluster.fence import (
    TOKEN,
    Fence,
    Outdated,
    close_fence,
    is_current,
    read_fence,
    write_fence,
)
from lefleet.cluster.transfer import travelling
from lefleet.executors import LocalExecutor, for_plan
from lefleet.executors.driver import OUTDATED, driver_argv
from lefleet.process import processes_marked
from lefleet.records import EpisodeRecord, ExpertDemos
from lefleet.records.executor import ExecutorPlan
from lefleet.stages.folder import Journal, StageFolder, is_locked, read_record
from lefleet.stages.run import FAILURE, STAGE_MARK, execute
from tests.samples import dataset_record, episode

REQUEST = ExpertDemos(tasks=("push",), episodes_per_task=1)


@pytest.fixture
def folder(tmp_path):
    """A stage that was submitted with the token `mine`."""
    with StageFolder(tmp_path / "stage", REQUEST) as stage:
        write_fence(stage.path, Fence(token="mine", submission="job"))
    return tmp_path / "stage"


@pytest.fixture
def fenced(monkeypatch):
    """This process is the body with the token `mine`."""
    monkeypatch.setenv(TOKEN, "mine")


@pytest.mark.usefixtures("fenced")
def test_the_body_with_the_token_appends_and_commits(folder):
    with StageFolder(folder, REQUEST) as stage, Journal(folder / "e.jsonl", EpisodeRecord) as lines:
        lines.append(episode())
        stage.commit(dataset_record())
    assert read_record(folder) == dataset_record()


@pytest.mark.usefixtures("fenced")
def test_a_body_that_was_replaced_writes_nothing(folder):
    with StageFolder(folder, REQUEST) as stage, Journal(folder / "e.jsonl", EpisodeRecord) as lines:
        write_fence(folder, Fence(token="next", submission="job2"))
        with pytest.raises(Outdated, match="taken over"):
            lines.append(episode())
        with pytest.raises(Outdated, match="taken over"):
            stage.commit(dataset_record())
    assert (folder / "e.jsonl").read_bytes() == b""
    assert read_record(folder) is None


@pytest.mark.usefixtures("fenced")
def test_a_replaced_body_leaves_no_failure_to_the_next_one(folder, monkeypatch):
    close_fence(folder)
    monkeypatch.setattr("lefleet.stages.run._body", lambda _: lambda *_: dataset_record())
    assert execute(folder) == Outdated.exit_code
    assert not (folder / FAILURE).exists()


def test_bodies_of_this_machine_need_no_token(folder, monkeypatch):
    monkeypatch.delenv(TOKEN, raising=False)
    close_fence(folder)
    with StageFolder(folder, REQUEST) as stage:
        stage.commit(dataset_record())
    assert read_record(folder) == dataset_record()


def test_a_folder_that_was_never_submitted_gets_no_fence(tmp_path):
    close_fence(tmp_path)
    assert read_fence(tmp_path) is None
    assert not is_current(tmp_path, "any")


def test_only_this_user_may_read_the_variables_in_it(folder):
    assert (folder / "fence.json").stat().st_mode & 0o077 == 0


def test_one_machine_takes_over_from_a_job_that_has_not_started(folder, monkeypatch):
    started = []
    monkeypatch.setattr("lefleet.executors.local.start", lambda *_, **__: started.append(1))
    LocalExecutor().start(folder, "collect", 1)
    assert started
    assert not is_current(folder, "mine")
    assert read_fence(folder).submission == ""


def test_the_plan_names_the_executor():
    assert isinstance(for_plan(ExecutorPlan()), LocalExecutor)


def drive(folder, token):
    return subprocess.Popen(driver_argv(folder, token), stderr=subprocess.PIPE)


def test_a_driver_with_an_old_token_starts_nothing(folder):
    with drive(folder, "older") as driver:
        assert b"taken over" in driver.stderr.read()
    assert driver.returncode == OUTDATED


def test_a_driver_ends_its_body_when_another_attempt_takes_over(folder):
    write_fence(folder, Fence(token="mine", submission="j", environment={STAGE_MARK: str(folder)}))
    with drive(folder, "mine") as driver:
        while not is_locked(folder):
            assert driver.poll() is None
            time.sleep(0.05)
        close_fence(folder)
        assert driver.wait() == OUTDATED
    assert not is_locked(folder)
    assert str(folder) not in processes_marked(STAGE_MARK).values()


def test_a_driver_waits_for_the_lock_of_a_body_of_before(folder):
    with StageFolder(folder, REQUEST):
        driver = drive(folder, "mine")
        time.sleep(1.0)
        assert driver.poll() is None
        assert str(folder) not in processes_marked(STAGE_MARK).values()
        close_fence(folder)
        with driver:
            assert driver.wait() == OUTDATED


@pytest.mark.usefixtures("any_program")
def test_a_process_of_a_job_takes_the_variables_of_the_submitter(folder):
    """Ray sets OMP_NUM_THREADS to a job's CPUs; what the submitter wrote counts."""
    code = (
        "import os; from lefleet.cluster.transfer import settle_in; "
        "settle_in({'OMP_NUM_THREADS': '1', 'LEFLEET_X': 'y'}); "
        "print({k: v for k, v in os.environ.items() if k[:3] in ('OMP', 'LEF', 'PYT')})"
    )
    node = {"OMP_NUM_THREADS": "7", "LEFLEET_RULES": "of the node", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=node, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "{'OMP_NUM_THREADS': '1', 'LEFLEET_X': 'y'}"


def test_keys_and_tokens_are_not_sent_to_nodes():
    sent = {"LEFLEET_STAGE": "s", "HF_HOME": "h", "PYTHONPATH": "p", "OMP_NUM_THREADS": "1"}
    secrets = dict.fromkeys(("HF_TOKEN", "LEFLEET_API_KEY", "LEFLEET_SLACK_TOKEN"), "x")
    of_the_node = {"PATH": "p", "RAY_AUTH_TOKEN": "t", "LEFLEET_CLUSTER": "c"}
    assert travelling(sent | secrets | of_the_node) == sent
