"""What a controller does with a run that it finds: in the ledger, and in the stage folders."""

import json
import os
import time
from pathlib import Path

import msgspec
import pytest

from lefleet.constitution import stored
from lefleet.errors import BadInput, ChildKilled, StageFailed
from lefleet.ledger import open_ledger
from lefleet.loop import controller as module
from lefleet.loop.activity import activity
from lefleet.loop.controller import Controller
from lefleet.loop.requests import cycle_inputs, make_request
from lefleet.loop.stage_process import Cancellation, StageCancelled, StageGone
from lefleet.loop.state import read_state
from lefleet.records import Budgets, ImprovePlan, RunConfig
from lefleet.stages.folder import StageFolder
from lefleet.stages.progress import LOADING
from tests.ledger.ledgers import execute
from tests.loop.fuzz import assert_journal_equals_table
from tests.loop.states import config, decision, record
from tests.loop.test_stage_process import HOLD, Stage
from tests.permissive import EVERYTHING
from tests.samples import dataset_record, finished_stage

pytestmark = pytest.mark.usefixtures("any_program")

HOUR = 3600.0
USED_UP = Budgets(wall_hours=1e-9)


class Run:
    """A run that has come to its first stage, without a controller."""

    def __init__(self, workdir: Path, of: RunConfig) -> None:
        self.workdir, self.config = workdir, of
        self.folder = workdir / "r"
        self.collect = self.folder / "cycle_0" / "collect"
        self.ledger = open_ledger(workdir)
        self.ledger.create_run("r", msgspec.to_builtins(of), None, stored(EVERYTHING))
        self.stage = Stage(self.collect)
        state = read_state(self.ledger, self.ledger.run("r"))
        self.request = make_request(cycle_inputs(state, self.folder, 0), "collect")

    def left_running(self, hours: float = 0.0) -> None:
        """The stage was started that long ago, by a controller that is gone."""
        self.ledger.start_attempt("r", 0, "collect", self.request)
        started = time.time() - hours * HOUR
        execute(self.workdir, f"UPDATE stage_attempt SET started_at = {started}")
        with StageFolder(self.collect, self.request):
            pass

    def control(self) -> int:
        return Controller(self.workdir, "r").run()

    def attempts(self) -> list[tuple[str, str, str]]:
        return [(one.stage, one.state, one.error) for one in self.ledger.attempts("r")]

    def ended(self) -> tuple[str, str]:
        row = self.ledger.run("r")
        return row.state, row.reason

    def kinds(self) -> list[str]:
        """Of the events in the file."""
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [json.loads(line)["kind"] for line in lines]


@pytest.fixture
def begin(workdir):
    runs = []

    def make(**changes) -> Run:
        runs.append(Run(workdir, config(**changes)))
        return runs[-1]

    yield make
    for run in runs:
        run.stage.end()
        run.ledger.close()


@pytest.fixture
def plot_free(monkeypatch):
    """Nothing is drawn; returns the rows that were summarized, with the state in the ledger."""
    seen = []

    def summarize(ledger, row, folder):
        seen.append((row.state, row.reason, ledger.run(row.id).state))

    monkeypatch.setattr(module, "write_summary", summarize)
    return seen


def test_a_budget_that_was_reached_without_a_controller_ends_the_running_stage(begin):
    run = begin(budgets=USED_UP)
    run.left_running()
    child = run.stage.ready(HOLD)
    assert run.control() == 0
    assert child.wait(30) < 0
    reason = "budget wall_hours of 1e-09 is used up"
    assert run.ended() == ("finished", reason)
    assert run.attempts() == [("collect", "cancelled", reason)]


def test_a_record_is_taken_though_a_budget_was_reached(begin):
    run = begin(budgets=USED_UP)
    run.left_running()
    finished_stage(run.collect, run.request, dataset_record())
    run.control()
    assert run.ended()[0] == "finished"
    assert run.attempts() == [("collect", "committed", "")]


def test_a_budget_that_is_used_up_starts_nothing(begin):
    run = begin(budgets=USED_UP)
    run.control()
    assert run.ended()[0] == "finished"
    assert run.attempts() == []
    assert not run.collect.exists()


def test_a_stage_that_is_attached_to_counts_from_its_start(begin):
    run = begin(budgets=Budgets(device_hours=1.0))
    run.left_running(hours=1.5)
    run.stage.ready(HOLD)
    run.control()
    assert run.ended() == ("finished", "budget device_hours of 1 is used up")
    (attempt,) = run.ledger.attempts("r")
    assert round((attempt.ended_at - attempt.started_at) / HOUR, 1) == 1.5


def test_a_stage_that_ended_without_a_controller_counts_to_its_end(begin):
    run = begin(budgets=Budgets(device_hours=1.0))
    run.left_running(hours=5.0)
    (run.collect / "log.txt").touch()
    at = time.time() - 3.5 * HOUR
    os.utime(run.collect / "log.txt", (at, at))
    run.control()
    assert run.ended() == ("finished", "budget device_hours of 1 is used up")
    assert run.attempts() == [("collect", "gone", "exited while no controller was running")]
    assert "stage_gone" in run.kinds()


def test_a_run_that_is_to_stop_leaves_no_open_attempt_and_no_process(begin):
    run = begin()
    run.left_running()
    child = run.stage.ready(HOLD)
    run.ledger.request_stop("r")
    assert run.control() == 0
    assert child.wait(30) < 0
    assert run.ended()[0] == "stopped"
    assert run.attempts() == [("collect", "cancelled", "on request")]
    assert json.loads((run.folder / "summary.json").read_text())["state"] == "stopped"
    assert_journal_equals_table(run.ledger, "r", run.folder)


def test_a_record_of_another_request_fails_the_run_at_once(begin):
    run = begin()
    other = msgspec.structs.replace(run.request, seed=99)
    finished_stage(run.collect, other, dataset_record())
    assert run.control() == 1
    state, reason = run.ended()
    assert state == "failed"
    assert "seed is 99 there" in reason


def test_the_state_of_a_run_is_the_last_thing_to_change(begin, plot_free):
    run = begin(budgets=USED_UP)
    run.control()
    assert plot_free == [("finished", "budget wall_hours of 1e-09 is used up", "running")]
    assert_journal_equals_table(run.ledger, "r", run.folder)


def test_a_full_disk_does_not_hide_how_the_run_ended(begin, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_summary", full)
    run = begin(budgets=USED_UP)
    run.control()
    assert run.ended()[0] == "finished"


def test_what_a_kill_left_out_of_the_files_of_an_ended_run_is_written(begin):
    run = begin()
    run.ledger.set_run_state("r", "finished", "done")
    run.control()
    assert json.loads((run.folder / "summary.json").read_text())["reason"] == "done"
    assert run.kinds() == ["run_created", "run_finished"]
    assert run.attempts() == []


def test_a_summary_that_is_there_is_not_written_again(begin, plot_free):
    run = begin()
    run.ledger.set_run_state("r", "stopped", "done")
    run.folder.mkdir()
    for name in ("summary.json", "success.png"):
        (run.folder / name).touch()
    run.control()
    assert plot_free == []


def test_events_are_in_the_file_as_they_happen(begin, monkeypatch, plot_free):
    run, seen = begin(), []

    def carry_out(request, folder, executor, *, must_end, on_launch, on_wait, on_silence):
        on_launch()
        seen.append(run.kinds()[-1])
        run.ledger.request_stop("r")
        must_end()
        seen.append(run.kinds()[-1])
        raise StageCancelled(Cancellation("stop", "by lefleet stop"))

    monkeypatch.setattr(module, "carry_out", carry_out)
    run.control()
    assert seen == ["stage_started", "stop_requested"]


def test_what_stages_need_is_loaded_before_an_attempt_begins(begin, monkeypatch, plot_free):
    run, seen = begin(), []

    class Loading:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def finish(self, progress) -> None:
            progress(LOADING)
            now = activity(run.ledger, run.ledger.run("r"), run.folder, is_controlled=True)
            seen.append((run.attempts(), now.progress().detail))

    def carry_out(request, folder, executor, *, must_end, on_launch, on_wait, on_silence):
        with StageFolder(folder, request):
            pass
        on_launch()
        run.ledger.request_stop("r")
        raise StageCancelled(Cancellation("stop", "by lefleet stop"))

    monkeypatch.setattr(module, "Preload", Loading)
    monkeypatch.setattr(module, "carry_out", carry_out)
    run.control()
    assert seen == [([], "loading LeRobot")]
    assert [one[:2] for one in run.attempts()] == [("collect", "cancelled")]


@pytest.fixture
def failing(begin, monkeypatch, plot_free):
    """Begins a run whose attempts at collect end with these errors in turn; each attempt with a
    `+` in front records one more episode."""
    monkeypatch.setattr(module, "backoff_s", lambda *_: 0.0)

    def run_with(*errors: tuple[str, Exception], **changes) -> Run:
        run, left = begin(**changes), list(errors)

        def carry_out(request, folder, executor, *, must_end, on_launch, on_wait, on_silence):
            on_launch()
            if not left:
                run.ledger.request_stop("r")
                raise StageCancelled(must_end() or Cancellation("stop", "asked"))
            sign, error = left.pop(0)
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "attempts.jsonl").open("a") as journal:
                journal.write("{}\n" if sign == "+" else "")
            raise error

        monkeypatch.setattr(module, "carry_out", carry_out)
        run.control()
        return run

    return run_with


KILLED = ChildKilled("A worker was killed by SIGKILL.")


def test_kills_that_let_the_stage_make_progress_do_not_fail_the_run(failing):
    run = failing(*[("+", KILLED)] * 5, max_attempts=1)
    assert [state for _, state, _ in run.attempts()] == ["killed"] * 5 + ["cancelled"]
    assert run.ended()[0] == "stopped"


def test_kills_without_progress_fail_the_run_after_max_attempts(failing):
    run = failing(("+", KILLED), ("", KILLED), ("", StageFailed("No.")), max_attempts=2)
    assert [state for _, state, _ in run.attempts()] == ["killed", "killed", "failed"]
    assert run.ended() == ("failed", "collect of cycle 0: No.")


def test_bad_input_fails_the_run_at_once_though_something_was_recorded(failing):
    run = failing(("+", BadInput("tasks: none.")), max_attempts=3)
    assert run.ended() == ("failed", "collect of cycle 0: tasks: none.")


def test_the_process_of_a_stage_may_be_killed_more_often_than_it_may_fail(failing):
    run = failing(*[("", StageGone("was killed by SIGKILL"))] * 5, max_attempts=1)
    assert run.ended()[0] == "stopped"


def test_a_stage_whose_process_is_always_killed_fails_the_run(failing, monkeypatch):
    monkeypatch.setattr("lefleet.loop.attempts.MAX_GONE", 3)
    run = failing(*[("", StageGone("was killed by SIGKILL"))] * 3)
    assert run.ended() == ("failed", "collect of cycle 0: was killed by SIGKILL")


def test_improving_that_keeps_failing_is_skipped(begin, monkeypatch, plot_free):
    run = begin(improve=ImprovePlan(method="correct"), max_attempts=2)
    for stage in ("collect", "train", "evaluate"):
        attempt = run.ledger.start_attempt("r", 0, stage, run.request)
        run.ledger.commit_stage(attempt, record(0, stage))
    run.ledger.record_decision("r", decision(0, "baseline", "c0"))

    def carry_out(request, folder, executor, *, must_end, on_launch, on_wait, on_silence):
        on_launch()
        if folder.name == "improve":
            raise StageFailed("No.")
        run.ledger.request_stop("r")
        raise StageCancelled(Cancellation("stop", "by lefleet stop"))

    monkeypatch.setattr(module, "carry_out", carry_out)
    run.control()
    assert [one[:2] for one in run.attempts()[3:]] == [
        ("improve", "failed"),
        ("improve", "skipped"),
        ("collect", "cancelled"),
    ]


def test_a_config_of_another_lefleet_is_named(tmp_path):
    ledger = open_ledger(tmp_path)
    ledger.create_run("r", {"name": "r", "colour": "red"})
    with pytest.raises(BadInput, match=r"cannot read the config of r: .*colour"):
        Controller(tmp_path, "r")
    ledger.close()
