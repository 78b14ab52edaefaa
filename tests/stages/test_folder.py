"""A stage's folder and its journal: used by one, cut off anywhere, committed once."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lefleet.durable import write_durably
from lefleet.errors import BadInput, StageFailed
from lefleet.process import launch, stop
from lefleet.records import (
    CompareRequest,
    EvaluateRequest,
    ExpertDemos,
    TrainRequest,
)
from lefleet.stages.folder import (
    StageFolder,
    read_record,
    read_request,
)
from tests.samples import dataset_record

REQUEST = ExpertDemos(tasks=("push",), episodes_per_task=1)
ENTER = """
import signal, sys
from pathlib import Path
from lefleet import ExpertDemos, LeFleetError
from lefleet.stages.folder import StageFolder
try:
    with StageFolder(Path(sys.argv[1]), ExpertDemos(tasks=("push",), episodes_per_task=1)):
        print("inside", flush=True)
        if sys.argv[2] == "stay":
            signal.pause()
except LeFleetError as error:
    print(type(error).__name__, error)
"""


def enter_elsewhere(folder, how: str) -> tuple[str, ...]:
    """Command of another process that enters the folder."""
    return (sys.executable, "-c", ENTER, str(folder), how)


def test_another_process_is_refused_while_one_works(tmp_path):
    with StageFolder(tmp_path / "a", REQUEST):
        other = subprocess.run(
            enter_elsewhere(tmp_path / "a", "leave"), capture_output=True, text=True, check=True
        )
    assert other.stdout.startswith(f"StageFailed Another process is working in {tmp_path / 'a'}.")


def test_another_process_may_enter_afterwards(tmp_path):
    with StageFolder(tmp_path / "a", REQUEST):
        pass
    other = subprocess.run(
        enter_elsewhere(tmp_path / "a", "leave"), capture_output=True, text=True, check=True
    )
    assert other.stdout == "inside\n"


@pytest.mark.usefixtures("any_program")
def test_a_killed_process_leaves_the_folder_free(tmp_path):
    holder = launch(enter_elsewhere(tmp_path / "a", "stay"), stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"inside\n"
        with pytest.raises(StageFailed), StageFolder(tmp_path / "a", REQUEST):
            pass
        holder.kill()
        holder.wait()
        with StageFolder(tmp_path / "a", REQUEST) as stage:
            assert not stage.is_new
    finally:
        stop(holder)
        holder.stdout.close()


@pytest.mark.usefixtures("any_program")
def test_a_child_that_outlives_the_stage_does_not_hold_its_folder(tmp_path):
    with StageFolder(tmp_path / "a", REQUEST):
        child = launch((sys.executable, "-c", "import signal; signal.pause()"))
    try:
        with StageFolder(tmp_path / "a", REQUEST):
            assert child.poll() is None
    finally:
        stop(child)


def test_the_folder_is_new_once(tmp_path):
    with StageFolder(tmp_path / "deep" / "a", REQUEST) as stage:
        assert stage.is_new
    with StageFolder(tmp_path / "deep" / "a", REQUEST) as stage:
        assert not stage.is_new


def test_another_request_is_refused_naming_the_field_that_differs(tmp_path):
    with StageFolder(tmp_path / "a", REQUEST):
        pass
    other = ExpertDemos(tasks=("push",), episodes_per_task=2)
    expected = r"out: .*/a was made for another request \(episodes_per_task is 1 there, 2 here\)"
    with pytest.raises(BadInput, match=expected), StageFolder(tmp_path / "a", other):
        pass


def test_a_request_of_another_kind_is_refused_naming_the_kind(tmp_path):
    with StageFolder(tmp_path / "a", REQUEST):
        pass
    other = EvaluateRequest(checkpoint="c")
    with pytest.raises(BadInput, match=r"\(a ExpertDemos\)"), StageFolder(tmp_path / "a", other):
        pass


def test_a_refused_request_leaves_the_folder_free(tmp_path):
    with StageFolder(tmp_path / "a", REQUEST):
        pass
    with pytest.raises(BadInput), StageFolder(tmp_path / "a", ExpertDemos()):
        pass
    with StageFolder(tmp_path / "a", REQUEST) as stage:
        assert not stage.is_new


def test_a_folder_with_other_things_in_it_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(BadInput, match="is not empty"), StageFolder(tmp_path, REQUEST):
        pass


def test_a_folder_that_was_refused_is_unchanged(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(BadInput), StageFolder(tmp_path, REQUEST):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "letter.txt"]


def test_a_stage_killed_while_it_wrote_its_request_can_be_started_again(tmp_path):
    (tmp_path / ".lock").touch()
    (tmp_path / "request.json.partial").write_bytes(b'{"kind": "exp')
    with StageFolder(tmp_path, REQUEST):
        assert (tmp_path / "request.json").exists()


def test_an_out_that_cannot_be_a_folder_is_bad_input(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(BadInput, match=r"out: .*/file/a cannot be used: Not a directory"),
        StageFolder(tmp_path / "file" / "a", REQUEST),
    ):
        pass


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_a_full_or_broken_disk_is_no_bad_input(tmp_path, monkeypatch, call, number):
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, call, fail)
    stage = StageFolder(tmp_path / "a", ExpertDemos())
    if call == "open":
        (tmp_path / "a").mkdir()
    with pytest.raises(StageFailed, match=os.strerror(number)), stage:
        pass


def test_a_damaged_request_is_an_error_that_names_its_file(tmp_path):
    with StageFolder(tmp_path, REQUEST):
        pass
    (tmp_path / "request.json").write_bytes(b"{")
    with pytest.raises(BadInput, match=r"request\.json: "), StageFolder(tmp_path, REQUEST):
        pass


def test_a_committed_record_is_there_for_the_next_one(tmp_path):
    with StageFolder(tmp_path, REQUEST) as stage:
        assert stage.record() is None
        stage.commit(dataset_record())
    assert read_record(tmp_path) == dataset_record()


def test_a_write_that_fails_halfway_leaves_what_was_there(tmp_path, monkeypatch):
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    write_durably(tmp_path / "record.json", b"old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_durably(tmp_path / "record.json", b"new")
    assert (tmp_path / "record.json").read_bytes() == b"old"


def test_a_record_that_was_not_written_to_its_end_does_not_count(tmp_path):
    (tmp_path / "record.json.partial").write_bytes(b'{"kind"')
    assert read_record(tmp_path) is None


def test_fresh_removes_what_an_interrupted_run_left(tmp_path):
    with StageFolder(tmp_path, REQUEST) as stage:
        (tmp_path / "dataset" / "meta").mkdir(parents=True)
        assert stage.fresh("dataset") == tmp_path / "dataset"
        assert not (tmp_path / "dataset").exists()


def test_what_no_result_depends_on_may_differ_when_a_stage_is_resumed(tmp_path):
    changes = [
        (EvaluateRequest(checkpoint="c", workers=9), EvaluateRequest(checkpoint="c", workers=1)),
        (TrainRequest(dataset="d"), TrainRequest(dataset="d", wandb=True)),
    ]
    for number, (begun, now) in enumerate(changes):
        with StageFolder(tmp_path / str(number), begun):
            pass
        with StageFolder(tmp_path / str(number), now) as stage:
            assert not stage.is_new
        assert read_request(tmp_path / str(number)) == now, "the stage's process reads it"


@pytest.mark.parametrize(
    "of",
    [
        lambda device: TrainRequest(dataset="d", device=device),
        lambda device: EvaluateRequest(checkpoint="c", device=device),
        lambda device: CompareRequest(checkpoint="c", baseline="b", device=device),
    ],
    ids=["train", "evaluate", "compare"],
)
def test_a_stage_is_not_resumed_on_another_device(tmp_path, of):
    with StageFolder(tmp_path / "a", of("cuda")):
        pass
    with (
        pytest.raises(BadInput, match="device is 'cuda' there, 'cpu' here"),
        StageFolder(tmp_path / "a", of("cpu")),
    ):
        pass


def test_a_folder_of_a_run_is_not_told_of_a_flag_that_it_does_not_take(tmp_path):
    folder = tmp_path / "mine" / "cycle_0" / "collect"
    with StageFolder(folder, REQUEST):
        pass
    (tmp_path / "mine" / "events.jsonl").touch()
    with (
        pytest.raises(BadInput, match="start a new run: this folder belongs to the run mine"),
        StageFolder(folder, ExpertDemos(tasks=("reach",))),
    ):
        pass
