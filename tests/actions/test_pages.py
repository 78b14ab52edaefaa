"""Knowledge pages edited by people: never over another's text, never broken, always with a name."""

import hashlib
import signal
import subprocess
import sys

import pytest

from lefleet.actions import pages
from lefleet.actions.pages import edit_page
from lefleet.errors import BadInput, Conflict, LeFleetError, Unknown
from lefleet.knowledge import update
from lefleet.knowledge.bundle import FOLDER
from lefleet.queries.knowledge import page_source
from tests.knowledge.played import Cycle, PlayedRun, even

PAGE = "tasks/push.md"
KILLED = """
import os, signal, sys
from pathlib import Path
from lefleet.actions import pages

pages.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
workdir, base, text = sys.argv[1:]
pages.edit_page(Path(workdir), "tasks/push.md", text, base, "anna")
"""


@pytest.fixture
def text(learned, workdir):
    return page_source(workdir, PAGE)[0]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def file(workdir):
    return workdir / FOLDER / PAGE


def edits(learned) -> list[tuple[str, str, str]]:
    return [(one.who, one.digest_before, one.digest_after) for one in learned.sections.edits(PAGE)]


def test_a_page_is_replaced_and_the_ledger_knows_by_whom(learned, workdir, text):
    new = text + "\nWatch the gripper.\n"
    saved = edit_page(workdir, PAGE, new, sha(text), "anna (token)")
    assert (saved.page, saved.digest, saved.is_changed) == (PAGE, sha(new), True)
    assert file(workdir).read_bytes() == new.encode()
    assert edits(learned) == [("anna (token)", sha(text), sha(new))]


def test_what_was_saved_already_is_not_saved_again(learned, workdir, text):
    new = text + "\nWatch the gripper.\n"
    edit_page(workdir, PAGE, new, sha(text), "anna")
    again = edit_page(workdir, PAGE, new, sha(text), "anna")
    assert (again.digest, again.is_changed) == (sha(new), False)
    assert len(edits(learned)) == 1


def test_a_page_that_somebody_changed_meanwhile_is_a_conflict(learned, workdir, text):
    edit_page(workdir, PAGE, text + "\nmine\n", sha(text), "anna")
    with pytest.raises(Conflict, match="has been changed since you opened it") as caught:
        edit_page(workdir, PAGE, text + "\nalso mine\n", sha(text), "ben")
    assert (caught.value.exit_code, file(workdir).read_text()) == (1, text + "\nmine\n")
    assert len(edits(learned)) == 1


def test_a_page_that_an_editor_saves_at_that_moment_is_a_conflict(
    learned, workdir, text, monkeypatch
):
    original = pages.replace

    def late(path, before, new):
        path.write_text(text + "\nby an editor\n")
        return original(path, before, new)

    monkeypatch.setattr(pages, "replace", late)
    with pytest.raises(Conflict):
        edit_page(workdir, PAGE, text + "\nmine\n", sha(text), "anna")
    assert file(workdir).read_text() == text + "\nby an editor\n"
    assert edits(learned) == []


def test_a_changed_section_is_the_persons_from_then_on(learned, workdir, text):
    marker = "<!-- lefleet:begin lessons -->\n"
    assert marker in text
    new = text.replace(marker, f"{marker}- I doubt it.\n").rstrip("\n") + "\nA note.\n"
    edit_page(workdir, PAGE, new, sha(text), "anna")
    PlayedRun(learned, workdir, "second").play(
        Cycle(demos=2, successes=even(3, "push"), continues=False),
        Cycle(demos=8, successes=even(18, "push"), continues=False),
    )
    assert PAGE in update(learned, workdir)
    after = file(workdir).read_text()
    assert "- I doubt it.\n" in after
    assert after.endswith("\nA note.\n")
    assert "second" in after
    assert learned.sections.digests(PAGE)["lessons"] == "human"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: "just words", "does not begin with front matter"),
        (lambda text: text.replace("name: push", "name: [push"), "front matter is not YAML"),
        (lambda text: text.replace("status: ", "status: maybe #"), "front matter: status"),
        (
            lambda text: text.replace("<!-- lefleet:end lessons -->", ""),
            "section .* begins inside section lessons|section lessons does not end",
        ),
        (lambda text: text + "<!-- lefleet:end other -->\n", "section other ends, but has not"),
        (lambda text: text + "\ud800", "not valid Unicode"),
        (lambda text: text + "ä" * 250_000, "at most 500000 bytes"),
    ],
)
def test_a_text_that_lefleet_could_not_read_is_refused(learned, workdir, text, change, why):
    with pytest.raises(BadInput, match=why):
        edit_page(workdir, PAGE, change(text), sha(text), "anna")
    assert (file(workdir).read_text(), edits(learned)) == (text, [])


@pytest.mark.parametrize(
    "page",
    [
        "",
        "push",
        "tasks/none.md",
        "../../etc/passwd",
        "tasks/../../secret.md",
        "tasks/../tasks/push.md",
        "./tasks/push.md",
        "KNOWLEDGE.md",
        "schema.json",
        "/etc/passwd",
        "tasks/push.md\0",
        "notes/mine.md",
    ],
)
def test_only_pages_of_the_list_can_be_edited(learned, workdir, text, page):
    (workdir / "secret.md").write_text(text)
    (workdir / FOLDER / "notes").mkdir()
    (workdir / FOLDER / "notes/mine.md").write_text(text)
    with pytest.raises(Unknown, match="there is no page"):
        edit_page(workdir, page, text + "x", sha(text), "anna")
    assert (workdir / "secret.md").read_text() == text


def test_a_page_that_is_a_link_is_left_alone(learned, workdir, text):
    outside = workdir / "outside.md"
    outside.write_text(text)
    file(workdir).unlink()
    file(workdir).symlink_to(outside)
    with pytest.raises(BadInput, match="it is a link"):
        edit_page(workdir, PAGE, text + "x", sha(text), "anna")
    assert outside.read_text() == text


def test_a_kill_before_the_file_is_written_loses_and_doubles_nothing(learned, workdir, text):
    new = text + "\nWatch the gripper.\n"
    argv = [sys.executable, "-c", KILLED, str(workdir), sha(text), new]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert file(workdir).read_text() == text
    assert edit_page(workdir, PAGE, new, sha(text), "anna").is_changed
    assert edits(learned) == [("anna", sha(text), sha(new))]


def test_a_page_that_cannot_be_written_is_a_clear_error(learned, workdir, text, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pages, "replace", full)
    with pytest.raises(LeFleetError, match="could not be written: No space left") as caught:
        edit_page(workdir, PAGE, text + "\nx\n", sha(text), "anna")
    assert caught.value.remedy
    assert edits(learned) == []


def test_a_page_keeps_the_line_breaks_of_its_person(learned, workdir, text):
    new = text.replace("\n", "\r\n")
    edit_page(workdir, PAGE, new, sha(text), "anna")
    assert file(workdir).read_bytes() == new.encode()
    assert update(learned, workdir) == []
