"""Lint: one finding for everything that a person should look at, and none without a reason."""

import shutil

import pytest

from lefleet.knowledge import ingest, lint, suggestions
from lefleet.knowledge.bundle import FOLDER
from lefleet.ledger import open_ledger
from tests.knowledge.played import Cycle, PlayedRun, demo_like, even


def rules(ledger, workdir) -> list[tuple[str, str]]:
    return [(one.page, one.rule) for one in lint(ledger, workdir)]


def edit(workdir, path: str, before: str, after: str) -> None:
    file = workdir / FOLDER / path
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def make_evidence(workdir, run: str = "demo") -> None:
    """Empty files where the pages link to."""
    for cycle in range(3):
        for stage in ("collect", "train", "evaluate", "gate"):
            folder = workdir / run / f"cycle_{cycle}" / stage
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "record.json").touch()
        (workdir / run / f"cycle_{cycle}/evaluate/videos").mkdir()
        (workdir / run / f"cycle_{cycle}/evaluate/videos/19.mp4").touch()
        (workdir / run / f"evidence_cycle_{cycle}.png").touch()
    for name in ("events.jsonl", "summary.json", "tasks.csv", "success.png"):
        (workdir / run / name).touch()


@pytest.fixture
def clean(ledger, workdir):
    """A demo with its pages and files."""
    demo_like(ledger, workdir)
    ingest(ledger, workdir, "demo")
    make_evidence(workdir)
    return ledger


def two_cycles(ledger, workdir, name: str, low: int, high: int, **changes) -> PlayedRun:
    return PlayedRun(ledger, workdir, name, **changes).play(
        Cycle(demos=2, successes=even(low, "push"), continues=False),
        Cycle(demos=8, successes=even(high, "push"), continues=False),
    )


def test_pages_as_ingest_leaves_them_are_clean(clean, workdir):
    assert lint(clean, workdir) == []


def test_an_empty_work_folder_is_clean(ledger, workdir):
    assert lint(ledger, workdir) == []


@pytest.mark.parametrize(
    ("before", "after", "rule", "said"),
    [
        ("name: push", "name: [push", "unreadable", "not YAML in line"),
        ("<!-- lefleet:end summary -->", "", "unreadable", "begins inside section summary"),
        ("\nstatus: observed-once", "\nstatus: sure", "schema", "status"),
        ("name: push", "", "schema", "name"),
        ("cycle: 0\n  events: [", "cycle: 0\n  events: [999999, ", "provenance", "999999"),
        ("run: demo", "run: other", "provenance", "not in the ledger"),
        ("../policies/small-act.md", "../policies/large.md", "link", "../policies/large.md"),
        ("updated: '2", "updated: '1", "stale", "newer rows"),
    ],
)
def test_what_people_broke_is_found(clean, workdir, before, after, rule, said):
    edit(workdir, "tasks/push.md", before, after)
    (finding,) = lint(clean, workdir)
    assert (finding.page, finding.rule) == ("tasks/push.md", rule)
    assert said in finding.text
    assert finding.suggestion


def test_a_page_that_is_not_there_is_missing(clean, workdir):
    (workdir / FOLDER / "tasks/push.md").unlink()
    assert ("tasks/push.md", "missing") in rules(clean, workdir)


def test_newer_rows_make_pages_stale(clean, workdir):
    demo_like(clean, workdir, "again", seed=1)
    make_evidence(workdir, "again")
    found = rules(clean, workdir)
    assert ("experiments/again.md", "missing") in found
    assert ("tasks/push.md", "stale") in found
    assert ("experiments/demo.md", "stale") not in found, "it has no newer rows of its own"
    ingest(clean, workdir, "again")
    assert lint(clean, workdir) == []


def test_a_run_that_ended_since_makes_its_page_stale(ledger, workdir):
    run = two_cycles(ledger, workdir, "a", 1, 2)
    ingest(ledger, workdir, "a")
    run.end("failed", "no disk")
    assert ("experiments/a.md", "stale") in rules(ledger, workdir)


def test_evidence_that_was_deleted_is_one_finding_for_each_page(clean, workdir):
    (workdir / "demo/success.png").unlink()
    (workdir / "demo/evidence_cycle_1.png").unlink()
    (finding,) = lint(clean, workdir)
    assert (finding.page, finding.rule) == ("experiments/demo.md", "link")
    assert finding.text.startswith("2 links to what does not exist")


def test_links_to_other_places_are_not_followed(clean, workdir):
    note = "[a](https://example.org) [b](#notes) [c](mailto:a@b) [d](//host/x)\n"
    edit(workdir, "tasks/push.md", "## Notes\n", f"## Notes\n\n{note}")
    assert lint(clean, workdir) == []


def test_a_ledger_that_does_not_know_a_page_is_reported(clean, workdir, tmp_path):
    other = open_ledger(tmp_path / "other")
    shutil.copytree(workdir / FOLDER, tmp_path / "other" / FOLDER)
    found = lint(other, tmp_path / "other")
    other.close()
    assert {one.rule for one in found} == {"provenance", "link"}


def test_pages_of_people_are_welcome(clean, workdir):
    """In a folder of their own, or confirmed by whoever wrote them."""
    (workdir / FOLDER / "ideas").mkdir()
    (workdir / FOLDER / "ideas/grippers.md").write_text("no front matter\n")
    text = (workdir / FOLDER / "tasks/push.md").read_text()
    front = text.partition("lessons:")[0].replace("name: push", "name: stacking")
    mine = front.replace("status: observed-once", "status: human-confirmed")
    page = workdir / FOLDER / "tasks/stacking.md"
    page.write_text(f"{mine}provenance: []\n---\nBlocks slip when they are dusty.\n")
    assert lint(clean, workdir) == []
    page.write_text(f"{front}provenance: []\n---\nBlocks slip when they are dusty.\n")
    assert rules(clean, workdir) == [("tasks/stacking.md", "provenance")]


def test_contradictions_become_suggestions_for_the_next_proposal(ledger, workdir):
    two_cycles(ledger, workdir, "a", 0, 18)
    two_cycles(ledger, workdir, "b", 19, 3, seed=1)
    found = [one for one in lint(ledger, workdir) if one.rule == "contradiction"]
    assert {one.page for one in found} == {"tasks/push.md"}
    assert any("Contradicted in run b, cycle 1" in one.text for one in found)
    told = suggestions(lint(ledger, workdir))
    assert told[0].startswith("Runs disagree, repeat it with another seed: 2 → 8 demonstrations")
    assert len(told) == len(set(told)) <= 10
    assert all(len(one) <= 240 and "\n" not in one for one in told)


def test_findings_about_files_are_no_suggestions(clean, workdir):
    edit(workdir, "tasks/push.md", "name: push", "name: [push")
    (workdir / FOLDER / "tasks/door-open.md").unlink()
    assert suggestions(lint(clean, workdir)) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("## Success by data", "## Success, by my own count", "a person edited results"),
        ("\nstatus: observed-once", "\nstatus: human-confirmed", "the page is confirmed"),
        ("  push-small-act", "  # sure\n  push-small-act", ""),
        (
            ": observed-once\nprovenance",
            ": human-confirmed\nprovenance",
            "is confirmed by a person",
        ),
    ],
)
def test_newer_evidence_against_what_a_person_wrote_is_reported(
    ledger, workdir, before, after, said
):
    two_cycles(ledger, workdir, "a", 0, 18)
    ingest(ledger, workdir, "a")
    edit(workdir, "tasks/push.md", before, after)
    two_cycles(ledger, workdir, "b", 19, 3, seed=1)
    ingest(ledger, workdir, "b")
    found = [one for one in lint(ledger, workdir) if one.rule == "human"]
    assert [said in one.text for one in found] == ([True] if said else [])
    if said:
        assert "Contradicted in run b" in found[0].text
        assert (workdir / FOLDER / "tasks/push.md").read_text().count(after) == 1


def test_lint_writes_nothing(clean, workdir):
    before = {path: path.stat().st_mtime_ns for path in (workdir / FOLDER).rglob("*")}
    lint(clean, workdir)
    assert {path: path.stat().st_mtime_ns for path in (workdir / FOLDER).rglob("*")} == before
