"""Knowledge pages as pages and API see them."""

import msgspec
import pytest

from lefleet.actions.pages import edit_page
from lefleet.errors import BadInput, Unknown
from lefleet.knowledge import Finding, lint
from lefleet.knowledge.bundle import FOLDER
from lefleet.queries import knowledge
from lefleet.queries.knowledge import findings, page, page_source, pages, remedy, search

PAGE = "tasks/push.md"


def test_the_list_has_names_and_statuses(learned, workdir):
    found = {one.page: one for one in pages(workdir)}
    assert (found[PAGE].name, found[PAGE].type, found[PAGE].status) == (
        "push",
        "task",
        "observed-once",
    )
    assert pages(workdir / "none") == []


def test_a_page_whole(learned, workdir):
    found = page(learned, workdir, PAGE)
    assert (found.page, found.name, found.type, found.problem) == (PAGE, "push", "task", "")
    assert (found.text, found.digest) == page_source(workdir, PAGE)
    assert found.text == (workdir / FOLDER / PAGE).read_text()
    assert "# Task push" in found.body
    assert "<!--" not in found.body
    assert not found.body.startswith("---")
    assert (found.human_sections, found.edits) == ((), ())
    msgspec.json.encode(found)


def test_a_page_tells_who_edited_it_and_what_is_theirs(learned, workdir):
    text, digest = page_source(workdir, PAGE)
    marker = "<!-- lefleet:begin lessons -->\n"
    saved = edit_page(workdir, PAGE, text.replace(marker, marker + "No.\n"), digest, "anna")
    edit_page(workdir, PAGE, text + "\nYes.\n", saved.digest, "ben (token)")
    found = page(learned, workdir, PAGE)
    assert [one.who for one in found.edits] == ["ben (token)", "anna"]
    assert found.edits[0].digest == found.digest
    assert found.human_sections == ()
    edit_page(workdir, PAGE, text.replace(marker, marker + "No.\n"), found.digest, "anna")
    assert page(learned, workdir, PAGE).human_sections == ("lessons",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text.replace("name: push", "name: [push"), "front matter is not YAML"),
        (lambda text: text.replace("<!-- lefleet:end lessons -->\n", ""), ""),
    ],
)
def test_a_broken_page_can_still_be_read_and_mended(learned, workdir, change, problem):
    text, _ = page_source(workdir, PAGE)
    (workdir / FOLDER / PAGE).write_text(change(text))
    found = page(learned, workdir, PAGE)
    assert found.problem.startswith(problem)
    assert found.text == change(text)
    assert "Task push" in found.body
    assert "unreadable" in {one.rule for one in found.findings}
    assert edit_page(workdir, PAGE, text, found.digest, "anna").is_changed
    assert page(learned, workdir, PAGE).problem == ""


def test_findings_are_those_of_lint_and_kept_until_something_changes(learned, workdir, monkeypatch):
    calls = []
    monkeypatch.setattr(knowledge, "lint", lambda *a: calls.append(a) or lint(*a))
    assert findings(learned, workdir) == lint(learned, workdir)
    findings(learned, workdir)
    assert len(calls) == 1
    learned.add_event("demo", "anything", {})
    findings(learned, workdir)
    (workdir / FOLDER / PAGE).write_text("broken")
    assert "unreadable" in {one.rule for one in findings(learned, workdir)}
    assert len(calls) == 3


def test_what_to_do_about_a_contradiction_does_not_repeat_it():
    said = "With 2 demonstrations of push, run a reached 0 % and run b 40 %."
    twice = Finding(
        page=PAGE,
        rule="contradiction",
        text=said,
        suggestion=f"Repeat it with another seed: {said}",
    )
    assert remedy(twice) == "Repeat it with another seed."
    other = msgspec.structs.replace(twice, rule="stale", suggestion="Run: lefleet knowledge update")
    assert remedy(other) == "Run: lefleet knowledge update"


def test_search_is_that_of_the_command(learned, workdir):
    assert search(workdir, "PICK-place 70")[0].page == "tasks/pick-place.md"
    assert search(workdir, "  ") == []
    with pytest.raises(BadInput, match="words: 201 characters"):
        search(workdir, "x" * 201)


@pytest.mark.parametrize("name", ["", "push", "../ledger.db", "tasks/../../ledger.db", "a\0b"])
def test_only_pages_of_the_list_are_shown(learned, workdir, name):
    with pytest.raises(Unknown, match="there is no page"):
        page(learned, workdir, name)


def test_stored_scripts_are_returned_as_text(learned, workdir):
    text, digest = page_source(workdir, PAGE)
    script = "\n<script>alert(1)</script> [x](javascript:alert(1))\n"
    edit_page(workdir, PAGE, text + script, digest, "<b>anna</b>")
    found = page(learned, workdir, PAGE)
    assert script in found.body
    assert found.edits[0].who == "<b>anna</b>"
