"""Fences: generated sections apart from the text of people, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.knowledge.fences import Section, Unreadable, digest, fenced, join, split

NAMES = st.sampled_from(["summary", "lessons", "next"])
TEXT = st.text(max_size=60)
LINES = st.lists(
    st.one_of(
        TEXT,
        NAMES.map("<!-- lefleet:begin {} -->".format),
        NAMES.map("<!-- lefleet:end {} -->".format),
        st.just("<!-- lefleet:begin NOT a name -->"),
        st.just("text <!-- lefleet:end next -->"),
    ),
    max_size=12,
)


@given(LINES, st.sampled_from(["\n", "\r\n"]))
def test_what_can_be_split_is_joined_again_byte_for_byte(lines, newline):
    text = newline.join(lines)
    try:
        parts = split(text)
    except Unreadable:
        return
    assert join(parts) == text


@given(st.lists(st.tuples(NAMES, TEXT, TEXT), max_size=3, unique_by=lambda one: one[0]))
def test_generated_sections_are_found_between_any_text_of_people(found):
    sections = [fenced(name, f"{text}\n") for name, text, _ in found]
    parts = []
    for section, (_, _, notes) in zip(sections, found, strict=True):
        parts += [section, f"{notes}\n"]
    again = [part for part in split(join(parts)) if isinstance(part, Section)]
    assert again == sections


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<!-- lefleet:begin a -->\nx\n", "section a does not end"),
        ("x\n<!-- lefleet:end a -->\n", "section a ends, but has not begun"),
        (
            "<!-- lefleet:begin a -->\n<!-- lefleet:begin b -->\n<!-- lefleet:end b -->\n",
            "section b begins inside section a",
        ),
        ("<!-- lefleet:begin a -->\n<!-- lefleet:end a -->\n" * 2, "section a is there twice"),
    ],
)
def test_fences_that_do_not_pair_are_refused(text, why):
    with pytest.raises(Unreadable, match=why):
        split(text)


def test_a_fence_inside_a_line_is_text():
    text = "see <!-- lefleet:begin a --> there\n"
    assert split(text) == [text]


def test_generated_text_with_a_fence_in_it_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="would hold a fence"):
        fenced("a", "x\n<!-- lefleet:end a -->\ny\n")


def test_line_breaks_of_another_system_are_no_edit():
    assert digest("a\r\nb\r\n") == digest("a\nb\n")
    assert digest("a\nb\n") != digest("a\nb")
