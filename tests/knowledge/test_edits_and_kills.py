"""Pages while people edit them and processes are killed: no edit is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lefleet.errors import LeFleetError
from lefleet.knowledge import bundle, ingest
from lefleet.knowledge.bundle import FOLDER, page_files
from tests.knowledge.played import Cycle, PlayedRun, demo_like, even
from tests.knowledge.test_ingest import PAGES, page


def edit(workdir, path: str, before: str, after: str) -> None:
    text = page(workdir, path)
    assert before in text
    (workdir / FOLDER / path).write_text(text.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# Task push", "# Task push, as I see it"),
        ("| 2 | 0 % (0 to 17) |", "| 2 | 0 % (by hand) |"),
        ("## Open questions", "## My questions"),
        ("\nWrite here.", "\nMy notes.\n\nWrite here."),
        ("---\n\n<!--", "---\n\nabove all\n\n<!--"),
        ("\ntype: task", "\nowner: anna # ask her\ntype: task"),
        ("\nstatus: observed-once", "\nstatus: human-confirmed"),
    ],
)
def test_an_edit_anywhere_outlives_newer_evidence(ledger, workdir, before, after):
    run = PlayedRun(ledger, workdir, "demo")
    run.play(Cycle(demos=2, successes=even(0), decision="baseline"))
    ingest(ledger, workdir, "demo")
    edit(workdir, "tasks/push.md", before, after)
    run.play(Cycle(demos=8, successes=even(18), decision="promote", verdict="better"))
    ingest(ledger, workdir, "demo")
    text = page(workdir, "tasks/push.md")
    assert after in text
    assert "2 → 8 demonstrations of push" in text, "other sections follow the evidence"
    assert ingest(ledger, workdir, "demo") == []


@pytest.mark.parametrize(
    "break_it",
    [
        lambda path: path.write_text(path.read_text().replace("name: push", "name: [push")),
        lambda path: path.write_text(path.read_text().replace("lefleet:end summary", "gone")),
        lambda path: path.write_bytes(path.read_bytes() + b"\xff\xfe"),
        lambda path: path.write_text(""),
        lambda path: (
            path.rename(path.with_suffix(".txt")),
            path.symlink_to(path.with_suffix(".txt")),
        ),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["yaml", "fence", "bytes", "empty", "link", "folder"],
)
def test_a_page_that_cannot_be_read_is_left_alone_and_stops_no_other(ledger, workdir, break_it):
    run = PlayedRun(ledger, workdir, "demo")
    run.play(Cycle(demos=2, successes=even(0), decision="baseline"))
    ingest(ledger, workdir, "demo")
    path = workdir / FOLDER / "tasks/push.md"
    break_it(path)
    left = path.read_bytes() if path.is_file() else None
    run.play(Cycle(demos=8, successes=even(18), decision="promote", verdict="better"))
    assert "tasks/pick-place.md" in ingest(ledger, workdir, "demo")
    assert (path.read_bytes() if path.is_file() else None) == left


def test_a_page_that_a_person_deleted_is_written_again(ledger, workdir):
    demo_like(ledger, workdir)
    ingest(ledger, workdir, "demo")
    edit(workdir, "tasks/push.md", "# Task push", "# Mine")
    ingest(ledger, workdir, "demo")
    (workdir / FOLDER / "tasks/push.md").unlink()
    assert ingest(ledger, workdir, "demo") == ["tasks/push.md"]
    assert "# Task push" in page(workdir, "tasks/push.md")


def on_write_of(monkeypatch, path: Path, action) -> None:
    """Call `action` each time that a new version of a page is on disk, and not yet in its place."""
    fsync = os.fsync

    def watched(file: int) -> None:
        fsync(file)
        if Path(f"/proc/self/fd/{file}").readlink().name == f".{path.name}.partial":
            action()

    monkeypatch.setattr(bundle.os, "fsync", watched)


def test_a_person_who_saves_while_a_page_is_written_loses_nothing(ledger, workdir, monkeypatch):
    run = PlayedRun(ledger, workdir, "demo")
    run.play(Cycle(demos=2, successes=even(0), decision="baseline"))
    ingest(ledger, workdir, "demo")
    run.play(Cycle(demos=8, successes=even(18), decision="promote", verdict="better"))
    path, saved = workdir / FOLDER / "tasks/push.md", []

    def save_twice() -> None:
        if len(saved) < 2:
            saved.append(path.write_text(path.read_text() + "saved just now\n"))

    on_write_of(monkeypatch, path, save_twice)
    ingest(ledger, workdir, "demo")
    assert path.read_text().count("saved just now\n") == 2
    assert "2 → 8 demonstrations" in path.read_text()


def test_a_person_who_makes_a_page_while_it_is_made_keeps_it(ledger, workdir, monkeypatch):
    demo_like(ledger, workdir)
    path = workdir / FOLDER / "tasks/push.md"
    on_write_of(monkeypatch, path, lambda: path.write_text("mine\n"))
    assert "tasks/push.md" not in ingest(ledger, workdir, "demo")
    assert path.read_text() == "mine\n"


def test_a_kill_that_left_a_second_name_of_a_page_tears_nothing(ledger, workdir, monkeypatch):
    """A new page has two names for an instant; what is written next must not be the page itself."""
    run = PlayedRun(ledger, workdir, "demo")
    run.play(Cycle(demos=2, successes=even(0), decision="baseline"))
    ingest(ledger, workdir, "demo")
    path = workdir / FOLDER / "tasks/push.md"
    os.link(path, path.with_name(".push.md.partial"))
    before, seen = path.read_text(), []
    on_write_of(monkeypatch, path, lambda: seen.append(path.read_text()))
    run.play(Cycle(demos=8, successes=even(18), decision="promote", verdict="better"))
    ingest(ledger, workdir, "demo")
    assert seen == [before]
    assert before != path.read_text()


def test_a_file_that_cannot_be_written_is_an_error_of_one_line_after_all_others(ledger, workdir):
    demo_like(ledger, workdir)
    (workdir / FOLDER / "tasks/.push.md.partial").mkdir(parents=True)
    with pytest.raises(LeFleetError, match=r"could not be written: tasks/push\.md") as error:
        ingest(ledger, workdir, "demo")
    assert "\n" not in str(error.value)
    assert page_files(workdir / FOLDER) == [path for path in PAGES if path != "tasks/push.md"]


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> dict:
    folder = str(tmp_path_factory.mktemp("killed"))
    program = [sys.executable, "-m", "tests.knowledge.killed", folder]
    out = subprocess.run(program, capture_output=True, check=True, text=True).stdout
    return json.loads(out)


def test_a_kill_at_any_step_is_made_up_for_and_loses_no_edit(killed):
    assert "## My questions" in killed["edited"]
    assert killed["edited"].endswith("a note of mine\n")
    assert "2 → 8 demonstrations of push" in killed["edited"]
    *kills, last = killed["killed"]
    assert last["code"] == 0, "one attempt was left to its end"
    assert len(kills) >= 24, "marks, file and marks again of four pages"
    for one in (*kills, last):
        assert one["torn"] == []
        assert one["pages"]
        assert one["marks"]


def test_processes_that_ingest_at_once_come_to_the_same_pages(killed):
    assert killed["at_once"] == {"codes": [0] * 4, "pages": True, "marks": True}
