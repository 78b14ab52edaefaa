"""A draft and the page as it stands: what people changed is theirs, wherever a kill came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.knowledge.fences import digest
from lefleet.knowledge.merge import HUMAN, STATUS, Draft, Merged, merge

FIELDS = {
    "name": "push",
    "type": "task",
    "status": "observed-once",
    "updated": "2026-01-01T00:00:00.000Z",
    "lessons": {"l": "observed-once"},
    "provenance": [{"run": "r", "cycle": 0, "events": [1]}],
}


def draft(number: int = 0, **changes) -> Draft:
    sections = {"summary": f"# Push {number}\n", "lessons": f"learned {number}\n"}
    fields = FIELDS | {"updated": f"2026-01-01T00:00:0{number}.000Z"} | changes
    return Draft("tasks/push.md", fields, sections)


NEW = merge(None, draft(), {})


def section(name: str, text: str) -> str:
    return f"<!-- lefleet:begin {name} -->\n{text}<!-- lefleet:end {name} -->\n"


def test_a_new_page_has_all_sections_and_room_for_notes():
    assert section("summary", "# Push 0\n") in NEW.text
    assert section("lessons", "learned 0\n") in NEW.text
    assert NEW.text.rstrip().endswith("stays as it is.")
    assert NEW.after["summary"] == digest("# Push 0\n")


def test_merging_the_same_draft_again_changes_nothing():
    again = merge(NEW.text, draft(), NEW.after)
    assert (again.text, again.after) == (NEW.text, NEW.after)


def test_newer_evidence_replaces_what_is_ours():
    newer = merge(NEW.text, draft(1), NEW.after)
    assert section("summary", "# Push 1\n") in newer.text
    assert "Push 0" not in newer.text
    assert "updated: '2026-01-01T00:00:01.000Z'" in newer.text


def test_text_outside_the_sections_stays_byte_for_byte():
    notes = "\ttabs, blanks   \n\n\n* a list\n<!-- a comment -->\n\u2028\x0bend without a break"
    newer = merge(NEW.text + notes, draft(1), NEW.after)
    assert newer.text.endswith(notes)


def test_an_edited_section_belongs_to_the_person_from_then_on():
    text = NEW.text.replace("learned 0", "learned by me")
    edited = merge(text, draft(1), NEW.after)
    assert "learned by me" in edited.text
    assert "# Push 1" in edited.text, "the other section is still ours"
    assert edited.after["lessons"] == HUMAN
    restored = edited.text.replace("learned by me", "learned 0")
    assert "learned 0" in merge(restored, draft(2), edited.after).text


def test_a_deleted_section_stays_deleted():
    text = NEW.text.replace(section("lessons", "learned 0\n"), "")
    gone = merge(text, draft(1), NEW.after)
    assert "lefleet:begin lessons" not in gone.text
    assert gone.after["lessons"] == HUMAN
    assert "lefleet:begin lessons" not in merge(gone.text, draft(2), gone.after).text


def test_a_section_that_people_moved_is_updated_where_it_stands():
    parts = section("lessons", "learned 0\n")
    text = NEW.text.replace(parts, "") + "below my notes\n" + parts
    newer = merge(text, draft(1), NEW.after)
    assert newer.text.endswith("below my notes\n" + section("lessons", "learned 1\n"))


def test_a_section_that_comes_with_a_newer_lefleet_is_added_in_its_place():
    old = merge(None, draft()._replace(sections={"summary": "# Push 0\n"}), {})
    newer = merge(old.text, draft(1), old.after)
    assert newer.text.index("lefleet:end summary") < newer.text.index("lefleet:begin lessons")
    assert newer.text.index("lefleet:end lessons") < newer.text.index("## Notes")
    assert newer.after["lessons"] == digest("learned 1\n")


def test_sections_of_unknown_origin_are_left_to_people():
    """For instance pages that were copied from another work folder."""
    found = merge(NEW.text, draft(1), {})
    assert "learned 0" in found.text
    assert set(found.after.values()) == {HUMAN}


def test_a_page_whose_file_is_gone_is_ours_again():
    marks = dict.fromkeys(NEW.after, HUMAN)
    again = merge(None, draft(1), marks)
    assert "learned 1" in again.text
    assert HUMAN not in again.after.values()


def test_a_confirmed_page_is_never_downgraded():
    text = NEW.text.replace("\nstatus: observed-once", "\nstatus: human-confirmed")
    found = merge(text, draft(1, status="contradicted"), NEW.after)
    assert "\nstatus: human-confirmed\n" in found.text
    assert "\nstatus: human-confirmed\n" in merge(found.text, draft(2), found.after).text


def test_any_status_that_a_person_set_stays():
    text = NEW.text.replace("\nstatus: observed-once", "\nstatus: contradicted")
    found = merge(text, draft(1), NEW.after)
    assert "\nstatus: contradicted\n" in found.text
    assert found.after[STATUS] == HUMAN


def test_a_status_of_ours_follows_the_evidence():
    found = merge(NEW.text, draft(1, status="replicated"), NEW.after)
    assert "\nstatus: replicated\n" in found.text


def test_a_confirmed_lesson_stays_confirmed():
    text = NEW.text.replace("  l: observed-once", "  l: human-confirmed")
    found = merge(text, draft(1, lessons={"l": "contradicted", "m": "replicated"}), NEW.after)
    assert "  l: human-confirmed\n  m: replicated\n" in found.text


def test_fields_that_people_added_stay():
    text = NEW.text.replace("---\n", "---\nowner: anna  # ask her\n", 1)
    assert "owner: anna  # ask her\n" in merge(text, draft(1), NEW.after).text


def test_an_editor_that_changes_line_breaks_takes_nothing_over():
    text = NEW.text.replace("\n", "\r\n")
    found = merge(text, draft(1), NEW.after)
    assert "learned 1\r\n" in found.text
    assert HUMAN not in found.after.values()
    assert found.text.count("\n") == found.text.count("\r\n")


@pytest.mark.parametrize("is_written", [False, True])
def test_a_kill_between_marks_and_file_is_no_edit_of_a_person(is_written):
    """The marks are in the ledger, the file is as before or as intended."""
    newer = merge(NEW.text, draft(1), NEW.after)
    left = newer.text if is_written else NEW.text
    after = merge(left, draft(2), newer.before)
    assert "learned 2" in after.text
    assert HUMAN not in after.after.values()


def test_a_kill_before_a_new_section_is_written_is_no_deletion():
    old = merge(None, draft()._replace(sections={"summary": "# Push 0\n"}), {})
    newer = merge(old.text, draft(1), old.after)
    after = merge(old.text, draft(2), newer.before)
    assert "learned 2" in after.text


def test_an_edit_after_a_kill_is_still_an_edit():
    newer = merge(NEW.text, draft(1), NEW.after)
    text = NEW.text.replace("learned 0", "learned by me")
    assert "learned by me" in merge(text, draft(2), newer.before).text


EDITS = {
    "edit summary": lambda text: text.replace("# Push", "# My push"),
    "edit lessons": lambda text: text.replace("learned", "I learned"),
    "notes": lambda text: text + "a note\n",
    "above": lambda text: text.replace("---\n\n", "---\n\nfirst of all\n", 1),
    "owner": lambda text: text.replace("---\n", "---\nowner: anna\n", 1),
    "confirm": lambda text: text.replace("\nstatus: observed-once", "\nstatus: human-confirmed"),
}
STEPS = st.lists(st.sampled_from([*EDITS, "ingest", "killed before", "killed after"]), max_size=10)


@given(STEPS)
def test_no_edit_is_lost_and_no_other_section_falls_behind(steps):
    """Whatever people do between whatever ingests, killed or not."""
    text, marks, made = NEW.text, dict(NEW.after), set()
    for number, step in enumerate([*steps, "ingest"], 1):
        if step in EDITS:
            text = text if step in made else EDITS[step](text)
            made.add(step)
            continue
        merged: Merged = merge(text, draft(number % 10), marks)
        marks |= merged.before
        if step == "killed before":
            continue
        text = merged.text
        if step == "ingest":
            marks |= merged.after
    last = (len(steps) + 1) % 10
    assert ("# My push" in text) == ("edit summary" in made)
    assert ("I learned" in text) == ("edit lessons" in made)
    assert ("a note\n" in text) == ("notes" in made)
    assert ("first of all\n" in text) == ("above" in made)
    assert ("owner: anna\n" in text) == ("owner" in made)
    assert ("status: human-confirmed" in text) == ("confirm" in made)
    assert (f"# Push {last}\n" in text) == ("edit summary" not in made)
    assert (f"\nlearned {last}\n" in text) == ("edit lessons" not in made)
