"""Starting anew: the old folder is kept under another name."""

import fcntl

import pytest

from lefleet.errors import BadInput, StageFailed
from lefleet.records import (
    EvaluateRequest,
    ExpertDemos,
)
from lefleet.stages.folder import (
    StageFolder,
    set_aside,
)
from tests.stages.test_folder import REQUEST


def test_a_folder_that_is_set_aside_keeps_everything_and_makes_room(tmp_path):
    for number in (1, 2):
        with StageFolder(tmp_path / "a", REQUEST) as stage:
            stage.log.write_text(f"attempt {number}")
        kept = set_aside(tmp_path / "a")
        assert kept == tmp_path / f"a-before-{number}"
        assert (kept / "log.txt").read_text() == f"attempt {number}"
        assert not (tmp_path / "a").exists()
    with StageFolder(tmp_path / "a", EvaluateRequest(checkpoint="c")) as stage:
        assert stage.is_new, "the folder may be used for another request"


@pytest.mark.parametrize("kind", ["nothing", "an empty folder", "a lock"])
def test_where_no_stage_was_nothing_is_set_aside(tmp_path, kind):
    if kind != "nothing":
        (tmp_path / "a").mkdir()
    if kind == "a lock":
        (tmp_path / "a" / ".lock").touch()
    before = sorted(tmp_path.rglob("*"))
    assert set_aside(tmp_path / "a") is None
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_of_something_else_is_never_set_aside(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").touch()
    with pytest.raises(BadInput, match="not a stage's folder"):
        set_aside(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").exists()


def test_a_folder_in_which_a_process_works_is_not_set_aside(tmp_path):
    with (
        StageFolder(tmp_path / "a", REQUEST),
        pytest.raises(StageFailed, match="Another process is working"),
    ):
        set_aside(tmp_path / "a")
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_name_that_is_taken_is_not_used_again(tmp_path):
    (tmp_path / "a-before-1").symlink_to("nowhere")
    with StageFolder(tmp_path / "a", REQUEST):
        pass
    assert set_aside(tmp_path / "a") == tmp_path / "a-before-2"


def test_the_lock_of_a_folder_that_was_set_aside_meanwhile_is_not_enough(tmp_path, monkeypatch):
    """Between opening the lock and locking it, the folder is set aside and another one begun."""
    with StageFolder(tmp_path / "a", REQUEST):
        pass
    real = fcntl.flock

    def replaced(*arguments) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        set_aside(tmp_path / "a")
        with StageFolder(tmp_path / "a", REQUEST):
            pass
        real(*arguments)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with pytest.raises(StageFailed, match="Another process"), StageFolder(tmp_path / "a", REQUEST):
        pass


def test_another_request_is_told_how_to_start_anew(tmp_path):
    with StageFolder(tmp_path / "a", REQUEST):
        pass
    with (
        pytest.raises(BadInput, match="start anew with --restart"),
        StageFolder(tmp_path / "a", ExpertDemos(tasks=("reach",))),
    ):
        pass
