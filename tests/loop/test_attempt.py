"""A stage process: its record is taken, it is attached to, or it is launched."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lefleet.errors import BadInput, StageFailed
from lefleet.loop import attempt
from lefleet.loop.attempt import Cancelled, Ending, Gone, cancel, carry_out
from lefleet.process import launch, processes_marked, stop
from lefleet.records import ExpertDemos, encode
from lefleet.stages.child import STAGE_MARK
from lefleet.stages.folder import StageFolder, read_record
from tests.samples import dataset_record, finished_stage

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
        def on_launch() -> None:
            self.launched += 1

        return carry_out(REQUEST, self.folder, must_end=must_end, on_launch=on_launch)

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
    monkeypatch.setattr(attempt, "start", lambda folder, *, detached: made.program(made.body))
    yield made
    made.end()


def test_a_record_is_taken(stage):
    finished_stage(stage.folder, REQUEST, dataset_record())
    assert stage.carry_out() == dataset_record()
    assert (stage.launched, stage.programs) == (0, [])


def test_a_stage_that_nobody_works_on_is_launched(stage):
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


def test_a_stage_that_ends_without_a_word_while_attached_is_gone(stage):
    with StageFolder(stage.folder, REQUEST):
        pass
    other = stage.ready(HOLD)
    with pytest.raises(Gone, match="nobody was looking"):
        stage.carry_out(must_end=other.kill)


def test_what_is_left_of_an_earlier_process_is_dead_before_the_next_starts(stage):
    left = stage.ready(STUBBORN)
    seen = []
    stage.body = COMMIT

    def on_launch() -> None:
        seen.append(left.poll())

    carry_out(REQUEST, stage.folder, must_end=lambda: None, on_launch=on_launch)
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
    monkeypatch.setattr(attempt, "GRACE_S", 0.3)
    stage.body = STUBBORN
    ending = Ending("stop", "a person asked for it")

    def once_it_runs() -> Ending:
        stage.programs[0].stdout.readline()
        return ending

    with pytest.raises(Cancelled) as caught:
        stage.carry_out(must_end=once_it_runs)
    assert caught.value.ending == ending
    assert processes_marked(STAGE_MARK, str(stage.folder)) == []
    assert stage.programs[0].wait() == -signal.SIGKILL


def test_a_stage_that_ends_when_asked_is_not_killed(stage):
    child = stage.ready("print(flush=True); signal.pause()")
    cancel(stage.folder)
    assert child.wait() == -signal.SIGTERM


def test_a_process_that_cannot_be_ended_is_named(stage, monkeypatch):
    monkeypatch.setattr(attempt, "GRACE_S", 0.0)
    child = stage.ready(STUBBORN)
    with pytest.raises(StageFailed, match=str(child.pid)):
        attempt.end_leftovers(stage.folder, signal.SIGTERM)


def test_a_process_that_was_killed_is_gone(stage):
    stage.body = "os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(Gone, match="killed by signal 9"):
        stage.carry_out()


@pytest.mark.parametrize(("code", "kind"), [(1, StageFailed), (2, BadInput)])
def test_a_failure_is_told_as_the_stage_told_it(stage, code, kind):
    said = f'{{"problem": "No.", "remedy": "Wait.", "exit_code": {code}}}'
    stage.body = f"(folder / 'failure.json').write_text({said!r}); sys.exit({code})"
    with pytest.raises(kind, match=r"No\. Wait\."):
        stage.carry_out()


def test_a_stage_that_fails_without_a_word_is_reported_with_its_code(stage):
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
    assert other.poll() is None, "it is somebody else's"


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

    def once_it_runs() -> Ending:
        stage.programs[0].stdout.readline()
        return Ending("budget", "used up")

    assert stage.carry_out(must_end=once_it_runs) == dataset_record()
