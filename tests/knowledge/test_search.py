"""Reading the pages: the list, full text, extracts for a language model."""

import pytest

from lefleet.knowledge import context, ingest, pages, search
from lefleet.knowledge.bundle import FOLDER
from lefleet.knowledge.search import fold, without_links
from tests.knowledge.played import demo_like


@pytest.fixture
def demo(ledger, workdir):
    demo_like(ledger, workdir)
    ingest(ledger, workdir, "demo")
    return workdir


def note(workdir, path: str, text: str) -> None:
    file = workdir / FOLDER / path
    file.write_text(file.read_text() + text)


def test_the_list_has_every_page_with_its_status(demo):
    found = {one.page: (one.name, one.type, one.status) for one in pages(demo)}
    assert found["tasks/push.md"] == ("push", "task", "observed-once")
    assert found["experiments/demo.md"] == ("demo", "experiment", "observed-once")
    assert len(found) == 5


def test_a_page_that_cannot_be_read_is_listed_with_the_reason(demo):
    (demo / FOLDER / "tasks/push.md").write_text("broken")
    (entry,) = [one for one in pages(demo) if one.page == "tasks/push.md"]
    assert "does not begin with front matter" in entry.problem


def test_the_page_with_the_name_comes_first_with_the_line_that_fits_best(demo):
    first, *others = search(demo, ["Pick-Place", "70"])
    assert first.page == "tasks/pick-place.md"
    assert first.text.startswith("- 2 → 8 demonstrations of pick-place (small-act): 0 % → 70 %")
    lines = (demo / FOLDER / first.page).read_text().splitlines()
    assert "2 → 8 demonstrations of pick-place" in lines[first.line - 1]
    assert {one.page for one in others} == {"experiments/demo.md", "policies/small-act.md"}


@pytest.mark.parametrize("words", [["uebung"], ["übung"], ["ÜBUNG"], ["ubung", "strasse"]])
def test_case_and_accents_do_not_matter(demo, words):
    note(demo, "tasks/push.md", "Die Übung auf der Straße\n")
    expected = [] if words == ["uebung"] else ["tasks/push.md"]
    assert [one.page for one in search(demo, words)] == expected


def test_all_words_must_occur(demo):
    assert search(demo, ["push", "nowhere"]) == []
    assert search(demo, ["   "]) == []


def test_a_broken_page_is_still_searched(demo):
    (demo / FOLDER / "tasks/push.md").write_text("---\nname: [\n---\nwobbly gripper\n")
    (hit,) = search(demo, ["wobbly"])
    assert (hit.page, hit.line, hit.status) == ("tasks/push.md", 4, "unreadable")


def test_nothing_is_found_where_nothing_is(tmp_path):
    assert (pages(tmp_path), search(tmp_path, ["x"]), context(tmp_path, ["push"])) == ([], [], [])


def test_fold_takes_off_case_and_accents():
    assert fold("Übung STRASSE Straße") == "ubung strasse strasse"


def test_text_for_a_terminal_has_no_targets_and_no_fences():
    text = "<!-- lefleet:begin a -->\n[a \\[b\\]](../x.md#y) **b**\n<!-- lefleet:end a -->\n"
    assert without_links(text) == "a \\[b\\] **b**\n"


def test_the_context_is_what_people_wrote_and_what_was_learned(demo):
    note(demo, "tasks/push.md", "The puck sticks in winter.\n")
    found = {one["page"]: one for one in context(demo, ["push", "pick-place"])}
    assert list(found) == ["tasks/push.md", "tasks/pick-place.md", "policies/small-act.md"]
    text = found["tasks/push.md"]["text"]
    assert text.index("The puck sticks in winter.") < text.index("2 → 8 demonstrations of push")
    assert "](" not in text
    assert "lefleet:begin" not in text
    assert "Write here" not in found["tasks/pick-place.md"]["text"]


@pytest.mark.parametrize("limit", [0, 1, 300, 5000])
def test_the_context_keeps_to_its_limit(demo, limit):
    note(demo, "tasks/push.md", "long " * 5000)
    found = context(demo, ["push", "pick-place", "door-open"], limit)
    assert sum(len(one["text"]) for one in found) <= limit


def test_the_context_leaves_out_other_tasks_and_broken_pages(demo):
    (demo / FOLDER / "tasks/push.md").write_text("broken")
    assert [one["page"] for one in context(demo, ["push", "door-open"])] == [
        "tasks/door-open.md",
        "policies/small-act.md",
    ]
    assert context(demo, ["another"]) == []
