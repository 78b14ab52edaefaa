"""A stage process: its record is taken, it is attached to, launched, watched, and ended."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from lefleet.errors import BadInput, StageFailed
from lefleet.executors import LocalExecutor
from lefleet.executors import local as module
from lefleet.executors.local import end_processes
from lefleet.ledger import open_ledger
from lefleet.loop import stage_process
from lefleet.loop.stage_process import (
    Cancellation,
    StageCancelled,
    StageGone,
    StageMonitor,
    carry_out,
)
from lefleet.process import launch, processes_marked, stop
from lefleet.records import Budgets, ExpertDemos, encode
from lefleet.stages.folder import StageFolder, read_record
from lefleet.stages.run import STAGE_MARK
from tests.loop.states import config, state
from tests.samples import dataset_record, finished_stage

pytestmark = pytest.mark.usefixtures("any_program")

REQUEST = ExpertDemos(tasks=("push",))
RECORD = encode(dataset_record()).decode()
COMMIT = "(folder / 'record.json').write_text(RECORD)"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
HOLD = (
    "fcntl.flock(os.open(folder / '.lock', os.O_RDWR), fcntl.LOCK_EX); print(flush=True); "
    "sys.stdin.read(); "
)


class Stage:
    """One stage folder and the tiny programs that work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launched = 0
        self.programs: list[subprocess.Popen] = []

    def program(self, code: str) -> subprocess.Popen:
        head = "import fcntl, os, pathlib, signal, sys; folder = pathlib.Path(sys.argv[1]); "
        child = launch(
            (sys.executable, "-c", f"{head}RECORD = {RECORD!r}; {code}", str(self.folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            environment={STAGE_MARK: str(self.folder)},
            detached=True,
        )
        self.programs.append(child)
        return child

    def ready(self, code: str) -> subprocess.Popen:
        """A program that has said that it is where the test wants it."""
        child = self.program(code)
        assert child.stdout.readline() == b"\n"
        return child

    def carry_out(self, must_end=lambda: None):
        def on_launch() -> int:
            self.launched += 1
            return self.launched

        return carry_out(
            REQUEST, self.folder, LocalExecutor(), must_end=must_end, on_launch=on_launch
        )

    def end(self) -> None:
        for child in self.programs:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            stop(child)
            child.stdin.close()
            child.stdout.close()


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """A stage whose launch starts `stage.body` instead of a real one."""
    made = Stage(tmp_path / "stage")
    made.body = COMMIT
    monkeypatch.setattr(module, "start", lambda folder, *, detached: made.program(made.body))
    yield made
    made.end()


def test_a_record_is_taken(stage):
    finished_stage(stage.folder, REQUEST, dataset_record())
    assert stage.carry_out() == dataset_record()
    assert (stage.launched, stage.programs) == (0, [])


def test_a_stage_without_a_process_is_launched(stage):
    assert stage.carry_out() == dataset_record()
    assert stage.launched == 1
    assert (stage.folder / "request.json").exists()


def test_a_stage_that_is_running_is_attached_to(stage):
    with StageFolder(stage.folder, REQUEST):
        pass
    other = stage.ready(HOLD + COMMIT)

    def let_it_end() -> None:
        other.stdin.close()

    assert stage.carry_out(must_end=let_it_end) == dataset_record()
    assert (stage.launched, len(stage.programs)) == (0, 1)


def test_a_stage_that_exits_without_a_record_while_attached_is_gone(stage):
    with StageFolder(stage.folder, REQUEST):
        pass
    other = stage.ready(HOLD)
    with pytest.raises(StageGone, match="exited without a record"):
        stage.carry_out(must_end=other.kill)


def test_what_is_left_of_an_earlier_process_is_dead_before_the_next_starts(stage):
    left = stage.ready(STUBBORN)
    seen = []
    stage.body = COMMIT

    def on_launch() -> int:
        seen.append(left.poll())
        return 1

    executor = LocalExecutor()
    carry_out(REQUEST, stage.folder, executor, must_end=lambda: None, on_launch=on_launch)
    assert seen == [-signal.SIGKILL]


def test_a_process_of_another_stage_is_left_alone(stage, tmp_path):
    other = Stage(tmp_path / "stage2")
    child = other.ready(STUBBORN)
    try:
        stage.carry_out()
        assert child.poll() is None
    finally:
        other.end()


def test_a_cancelled_stage_is_dead_though_it_ignores_the_request(stage, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.3)
    stage.body = STUBBORN
    cancellation = Cancellation("stop", "by lefleet stop")

    def once_it_runs() -> Cancellation:
        stage.programs[0].stdout.readline()
        return cancellation

    with pytest.raises(StageCancelled) as caught:
        stage.carry_out(must_end=once_it_runs)
    assert caught.value.cancellation == cancellation
    assert str(stage.folder) not in processes_marked(STAGE_MARK).values()
    assert stage.programs[0].wait() == -signal.SIGKILL


def test_a_stage_that_ends_when_asked_is_not_killed(stage):
    child = stage.ready("print(flush=True); signal.pause()")
    LocalExecutor().cancel({stage.folder})
    assert child.wait() == -signal.SIGTERM


def test_a_process_that_cannot_be_ended_is_named(stage, monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    child = stage.ready(STUBBORN)
    with pytest.raises(StageFailed, match=str(child.pid)):
        end_processes({stage.folder}, signal.SIGTERM)


def test_a_process_that_was_killed_is_gone(stage):
    stage.body = "os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(StageGone, match="was killed by SIGKILL"):
        stage.carry_out()


@pytest.mark.parametrize(("code", "kind"), [(1, StageFailed), (2, BadInput)])
def test_a_failure_has_the_words_of_the_stage(stage, code, kind):
    said = f'{{"problem": "No.", "remedy": "Wait.", "exit_code": {code}}}'
    stage.body = f"(folder / 'failure.json').write_text({said!r}); sys.exit({code})"
    with pytest.raises(kind, match=r"No\. Wait\."):
        stage.carry_out()


def test_a_stage_that_fails_without_a_message_is_reported_with_its_code(stage):
    stage.body = "sys.exit(3)"
    with pytest.raises(StageFailed, match="code 3"):
        stage.carry_out()
    assert read_record(stage.folder) is None


def test_a_folder_made_for_another_request_is_refused_before_the_launch(stage):
    with StageFolder(stage.folder, ExpertDemos(tasks=("reach",))):
        pass
    with pytest.raises(BadInput, match="another request"):
        stage.carry_out()
    assert stage.launched == 0


OTHER = ExpertDemos(tasks=("reach",))


def test_a_record_of_another_request_is_not_taken(stage):
    finished_stage(stage.folder, OTHER, dataset_record())
    with pytest.raises(BadInput, match=r"another request \(tasks is \('reach',\) there"):
        stage.carry_out()


def test_a_stage_running_for_another_request_is_not_attached_to(stage):
    with StageFolder(stage.folder, OTHER):
        pass
    other = stage.ready(HOLD + COMMIT)
    with pytest.raises(BadInput, match="another request"):
        stage.carry_out(must_end=other.stdin.close)
    assert other.poll() is None, "it belongs to another request"


def test_a_request_that_is_changed_while_the_stage_runs_is_noticed(stage):
    stage.body = f"(folder / 'request.json').write_text({encode(OTHER).decode()!r}); {COMMIT}"
    with pytest.raises(BadInput, match="another request"):
        stage.carry_out()


def test_a_record_without_a_request_is_refused(stage):
    finished_stage(stage.folder, REQUEST, dataset_record())
    (stage.folder / "request.json").unlink()
    with pytest.raises(BadInput, match=r"has no request\.json"):
        stage.carry_out()


def test_a_record_that_came_while_the_stage_was_cancelled_is_taken(stage):
    stage.body = (
        f"signal.signal(signal.SIGTERM, lambda *_: {COMMIT}); print(flush=True); signal.pause()"
    )

    def once_it_runs() -> Cancellation:
        stage.programs[0].stdout.readline()
        return Cancellation("budget", "used up")

    assert stage.carry_out(must_end=once_it_runs) == dataset_record()


class Clock:
    """A clock that the test moves."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Makes a monitor of a stage; `pass_time` moves its clock in steps and asks at each."""
    clock, ledger = Clock(), open_ledger(tmp_path)
    ledger.create_run("r", {})
    monkeypatch.setattr(stage_process, "time", clock)

    def start(
        wall_s: float = 0.0,
        device_seconds: float = 0.0,
        loading_s: float = 0.0,
        worked_s: float = 0.0,
        **changes,
    ):
        now = state(of=config(hang_after_s=10.0, **changes), device_seconds=device_seconds)
        monitor = StageMonitor(ledger, "r", tmp_path, now, lambda: wall_s, worked_s=worked_s)
        clock.now += loading_s
        monitor.begin()

        def pass_time(*steps: float):
            answers = []
            for seconds in steps:
                clock.now += seconds
                answers.append(monitor.must_end())
            return answers[-1]

        return pass_time

    yield start, ledger
    ledger.close()


def test_a_stage_within_its_limits_is_left_running(watched):
    start, _ = watched
    assert start()(1.0) is None


def test_a_request_to_stop_ends_it(watched):
    start, ledger = watched
    ledger.request_stop("r")
    assert start()(1.0) == ("stop", "on request")


def test_the_ledger_is_not_asked_all_the_time(watched):
    start, ledger = watched
    ledger.request_stop("r")
    pass_time = start()
    assert pass_time(0.1) is None
    assert pass_time(0.5).kind == "stop"


def test_wall_time_ends_it(watched):
    start, _ = watched
    pass_time = start(wall_s=3600.0, budgets=Budgets(wall_hours=1.0))
    assert pass_time(1.0).kind == "budget"


def test_its_own_running_time_counts(watched):
    start, _ = watched
    pass_time = start(device_seconds=3590.0, budgets=Budgets(device_hours=1.0))
    assert pass_time(4.0, 4.0) is None
    assert pass_time(4.0).kind == "budget"


def test_what_a_body_worked_before_it_was_attached_to_counts(watched):
    start, _ = watched
    within = {"device_seconds": 3000.0, "budgets": Budgets(device_hours=1.0)}
    assert start(**within, worked_s=580.0)(4.0, 4.0) is None
    assert start(**within, worked_s=595.0)(4.0, 4.0).kind == "budget"


def test_what_the_controller_loads_before_it_starts_the_stage_does_not_count(watched):
    start, _ = watched
    within = {"device_seconds": 3590.0, "budgets": Budgets(device_hours=1.0)}
    assert start(**within, loading_s=60.0)(8.0) is None


def test_time_in_a_queue_does_not_count_and_a_stop_is_still_seen(tmp_path):
    with closing(open_ledger(tmp_path)) as ledger:
        ledger.create_run("r", {})
        used = state(of=config(budgets=Budgets(device_hours=1.0)), device_seconds=3599.9)
        # Attached to after two hours in the queue without a controller.
        monitor = StageMonitor(ledger, "r", tmp_path, used, lambda: 0.0, worked_s=7200.0)

        def asked() -> Cancellation | None:
            time.sleep(0.6)
            monitor.waits()
            return monitor.must_end()

        assert asked() is None
        ledger.request_stop("r")
        assert asked().kind == "stop"


def test_a_stage_without_a_sign_of_life_hangs(watched):
    start, _ = watched
    pass_time = start()
    assert pass_time(1.0, 4.0, 4.0) is None
    assert pass_time(4.0) == ("hang", "no activity for 10 s")


@pytest.mark.parametrize("name", ["progress.json", "log.txt", "attempts.jsonl", "episodes.jsonl"])
def test_a_file_that_changes_is_a_sign_of_life(watched, tmp_path, name):
    start, _ = watched
    pass_time = start()
    pass_time(1.0, 4.0, 4.0)
    (tmp_path / name).write_text("alive")
    assert pass_time(4.0, 4.0, 4.0) is None
    assert pass_time(4.0).kind == "hang"


def test_a_long_gap_between_two_questions_is_no_quiet_time(watched):
    start, _ = watched
    pass_time = start()
    assert pass_time(1.0, 3600.0, 3600.0) is None
