"""Attempts are closed with what the stage folders show."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from lefleet.executors import LocalExecutor, local
from lefleet.ledger import AttemptRow, open_ledger, store
from lefleet.loop.attempts import Attempts, recorded
from lefleet.loop.limits import attempts_used
from lefleet.stages.folder import StageFolder
from tests.ledger.ledgers import REQUEST, execute
from tests.loop.test_stage_process import HOLD, OTHER, Stage
from tests.samples import dataset_record, finished_stage

pytestmark = pytest.mark.usefixtures("any_program")

HOUR = 3600.0


class Bench:
    """A run with one attempt at collect that began three hours ago."""

    def __init__(self, workdir: Path) -> None:
        self.now = time.time()
        self.ledger = open_ledger(workdir)
        self.ledger.create_run("r", {})
        self.ledger.start_attempt("r", 0, "collect", REQUEST)
        started = self.now - 3 * HOUR
        execute(workdir, f"UPDATE stage_attempt SET started_at = {started}")
        self.folder = workdir / "r" / "cycle_0" / "collect"
        self.attempts = Attempts(self.ledger, "r", workdir / "r", LocalExecutor())
        self.stage = Stage(self.folder)

    @property
    def attempt(self) -> AttemptRow:
        return self.ledger.attempts("r")[0]

    def hours(self) -> float:
        return round((self.attempt.ended_at - self.attempt.started_at) / HOUR, 2)

    def date(self, name: str, hours_ago: float) -> None:
        at = self.now - hours_ago * HOUR
        os.utime(self.folder / name, (at, at))


@pytest.fixture
def bench(workdir):
    made = Bench(workdir)
    yield made
    made.stage.end()
    made.ledger.close()


def test_a_committed_stage_ended_when_its_record_was_written(bench):
    finished_stage(bench.folder, REQUEST, dataset_record())
    bench.date("record.json", hours_ago=1)
    bench.attempts.commit(bench.attempt, dataset_record())
    assert (bench.attempt.state, bench.hours()) == ("committed", 2.0)


@pytest.mark.parametrize("sign", ["progress.json", "log.txt", "attempts.jsonl", "episodes.jsonl"])
def test_an_abandoned_attempt_ended_at_its_last_sign_of_life(bench, sign):
    bench.folder.mkdir(parents=True)
    (bench.folder / sign).touch()
    bench.date(sign, hours_ago=2.5)
    bench.attempts.abandon(bench.attempt)
    assert (bench.attempt.state, bench.hours()) == ("gone", 0.5)
    assert bench.ledger.events("r")[-1].kind == "stage_gone"


@pytest.mark.parametrize("hours_ago", [None, 5.0])
def test_an_attempt_does_not_end_before_it_started(bench, hours_ago):
    bench.folder.mkdir(parents=True)
    if hours_ago:
        (bench.folder / "log.txt").touch()
        bench.date("log.txt", hours_ago)
    bench.attempts.abandon(bench.attempt)
    assert bench.hours() == 0.0


def test_an_attempt_that_the_next_one_closes_is_an_event_too(bench):
    bench.ledger.start_attempt("r", 0, "collect", REQUEST)
    kinds = [event.kind for event in bench.ledger.events("r")]
    assert kinds == ["run_created", "stage_started", "stage_gone", "stage_started"]


def test_an_attempt_that_waits_for_a_cluster_has_not_worked(bench):
    bench.attempts.waits(0, "collect", "room")
    waited = bench.attempt.waited_s
    assert waited == pytest.approx(3 * HOUR, abs=60)
    assert bench.attempt.worked_s(time.time()) == pytest.approx(0.0, abs=60)
    bench.attempts.waits(0, "collect", "room")
    assert bench.attempt.waited_s == waited, "kept every few seconds"


def test_settling_takes_a_record_that_is_there(bench):
    finished_stage(bench.folder, REQUEST, dataset_record())
    bench.attempts.settle("enough")
    assert (bench.attempt.state, bench.attempt.record) == ("committed", dataset_record())


def test_settling_ends_a_process(bench):
    with StageFolder(bench.folder, REQUEST):
        pass
    child = bench.stage.ready(HOLD)
    bench.attempts.settle("enough")
    assert child.wait(30) < 0
    attempt = bench.attempt
    assert (attempt.state, attempt.error, bench.hours()) == ("cancelled", "enough", 3.0)


def test_settling_a_dead_stage_counts_to_its_last_sign_of_life(bench):
    bench.folder.mkdir(parents=True)
    (bench.folder / "log.txt").touch()
    bench.date("log.txt", hours_ago=2)
    bench.attempts.settle("enough")
    assert (bench.attempt.state, bench.hours()) == ("cancelled", 1.0)


def test_settling_does_not_take_what_another_request_made(bench):
    finished_stage(bench.folder, OTHER, dataset_record())
    bench.attempts.settle("enough")
    assert bench.attempt.state == "failed"
    assert "another request" in bench.attempt.error


def test_settling_ends_what_no_attempt_knows_of(bench):
    bench.ledger.end_attempt(bench.attempt, "gone", "killed by signal 9")
    bench.folder.mkdir(parents=True)
    child = bench.stage.ready("print(flush=True); signal.pause()")
    bench.attempts.settle("enough")
    assert child.wait(30) < 0


def test_settling_looks_through_the_processes_once_however_many_stages_there_are(
    bench, monkeypatch
):
    for cycle in range(5):
        (bench.folder.parents[1] / f"cycle_{cycle}" / "train").mkdir(parents=True)
    looks, real = [], local.processes_marked

    def counted(name: str) -> dict[int, str]:
        looks.append(name)
        return real(name)

    monkeypatch.setattr(local, "processes_marked", counted)
    bench.attempts.settle("enough")
    assert len(looks) == 1


def test_attempts_count_from_the_last_resume_also_when_the_clock_steps_back(bench, monkeypatch):
    bench.attempts.close(bench.attempt, "failed", "before")
    bench.ledger.resume_run("r")
    monkeypatch.setattr(store.time, "time", lambda: bench.now - 10 * HOUR)
    attempt = bench.ledger.start_attempt("r", 0, "collect", REQUEST)
    bench.attempts.close(attempt, "failed", "after")
    made = bench.attempts.of(0, "collect")
    assert [one.error for one in made] == ["before", "after"]
    assert attempts_used(made, bench.ledger.run("r").resumed_after, "failed") == 1


def test_what_a_stage_has_recorded_is_its_episodes_and_its_training_steps(tmp_path):
    assert recorded(tmp_path) == 0
    (tmp_path / "attempts.jsonl").write_text("{}\n{}\n{}\n{half a li")
    assert recorded(tmp_path) == 3
    checkpoints = tmp_path / "training" / "checkpoints"
    (checkpoints / "000400").mkdir(parents=True)
    assert recorded(tmp_path) == 3, "a checkpoint counts when it is complete"
    (checkpoints / "last").symlink_to("000400")
    assert recorded(tmp_path) == 403


def test_a_closed_attempt_keeps_what_was_recorded(bench):
    bench.folder.mkdir(parents=True)
    (bench.folder / "attempts.jsonl").write_text("{}\n")
    bench.attempts.close(bench.attempt, "killed", "A worker was killed by SIGKILL.")
    assert (bench.attempt.state, bench.attempt.recorded) == ("killed", 1)


CHANGED = msgspec.structs.replace(REQUEST, noise=0.5)


def test_a_stage_whose_request_changed_begins_anew_and_its_folder_is_kept(bench):
    with StageFolder(bench.folder, REQUEST) as stage:
        stage.log.write_text("it failed")
    bench.attempts.begin_anew(0, "collect", CHANGED)
    kept = bench.folder.with_name("collect-before-1")
    assert not bench.folder.exists()
    assert (kept / "log.txt").read_text() == "it failed"
    event = bench.ledger.events("r")[-1]
    assert (event.kind, event.data["kept"]) == ("stage_begins_anew", kept.name)


def test_a_stage_whose_request_is_the_same_is_resumed(bench):
    with StageFolder(bench.folder, REQUEST):
        pass
    bench.attempts.begin_anew(0, "collect", REQUEST)
    assert bench.folder.exists()


def test_a_folder_that_the_run_did_not_begin_is_never_set_aside(bench):
    with StageFolder(bench.folder, OTHER):
        pass
    bench.attempts.begin_anew(0, "collect", CHANGED)
    assert bench.folder.exists()
