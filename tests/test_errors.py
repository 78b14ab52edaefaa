"""What is said of a folder that cannot be read."""

import os
from pathlib import Path

import pytest

from lefleet.cli.checkpoints import resolve_checkpoint
from lefleet.cli.parse import absolute
from lefleet.errors import BadInput, why_not_a_folder
from lefleet.ledger import read_ledger
from lefleet.server.capture import read_captures
from lefleet.stages.references import find_checkpoint, find_dataset

NOBODY = 65534
CASES = {
    "missing": "does not exist",
    "file": "is a file, not a folder",
    "file/inside": "is inside a file, which is not a folder",
    "link": "is a link to what does not exist",
    "a" * 300: "cannot be read: File name too long",
}


@pytest.fixture
def place(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


@pytest.mark.parametrize(("name", "words"), CASES.items())
def test_missing_is_said_only_of_what_is_missing(place, name, words):
    assert why_not_a_folder(place / name) == words


def test_a_folder_that_can_be_read_has_no_problem(place):
    assert why_not_a_folder(place / "folder") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_of_somebody_else_is_not_missing(place):
    (place / "folder").chmod(0o700)
    os.seteuid(NOBODY)
    try:
        found = [why_not_a_folder(place / name) for name in ("folder", "folder/inside", "missing")]
    finally:
        os.seteuid(0)
    assert found == ["cannot be read: Permission denied"] * 3


@pytest.mark.parametrize(("name", "words"), CASES.items())
@pytest.mark.parametrize(
    "use",
    [
        lambda path: find_checkpoint(str(path), "field"),
        lambda path: find_dataset(str(path), "field"),
        lambda path: list(read_captures(path)),
        read_ledger,
        lambda path: find_checkpoint(
            resolve_checkpoint(str(path), Path("runs"), "a").location, "a"
        ),
    ],
    ids=["checkpoint", "dataset", "captures", "workdir", "name"],
)
def test_every_user_of_folders_says_it(place, name, words, use, request):
    if name == "missing" and "workdir" in request.node.name:
        return  # A work folder is made when it is needed.
    with pytest.raises(BadInput) as caught:
        use(place / name)
    assert words in str(caught.value) or "gone does not exist" in str(caught.value)


def test_a_link_to_itself_is_not_taken_for_a_user(place):
    with pytest.raises(BadInput, match="leads back to itself"):
        absolute(place / "loop", "out")
