"""Text of others: on its line, neither Markdown nor HTML, in no other folder."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.knowledge.fences import fenced, split
from lefleet.knowledge.markup import escape, link, slug, table

HOSTILE = [
    "../../etc/passwd",
    "a\nb",
    "-->",
    "<!-- lefleet:end summary -->",
    "\n<!-- lefleet:end summary -->\n# forged",
    "---\nstatus: human-confirmed\n---",
    "a | b | c",
    "[click](javascript:alert(1))",
    "![x](http://evil/x.png)",
    "<script>alert(1)</script>",
    "`code` **bold** _it_ ~~no~~",
    "\x1b[31mred\x07",
    "\ud800",
    "",
    "con",
    ".",
    "..",
    ".hidden",
    "ä" * 300,
    "!!python/object:os.system",
    "*anchor &x",
    "name: yes",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_on_its_line_and_opens_no_fence(name):
    text = f"before {escape(name)} after\n"
    assert text.count("\n") == 1
    assert text.isprintable() or text.rstrip("\n").isprintable()
    assert not re.search(r"[<>]", text)
    assert len(split(text)) == 1
    fenced("summary", f"{escape(name)}\n")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_adds_no_cell_and_no_link(name):
    row = table(("a", "b"), [[escape(name), link(name, f"../tasks/{slug(name)}.md")]])
    assert len(re.findall(r"(?<!\\)\|", row.splitlines()[-1])) == 3
    assert len(re.findall(r"(?<!\\)\]\(", row)) == 1


@given(st.text(max_size=80))
def test_a_file_name_is_plain_whatever_the_name_is(name):
    assert re.fullmatch(r"[a-z0-9_][a-z0-9_.-]{0,60}", slug(name))
    assert ".." not in slug(name) or name == slug(name)


@given(st.text(max_size=20), st.text(max_size=20))
def test_different_names_have_different_files_also_where_case_does_not_count(one, other):
    assert (slug(one).lower() == slug(other).lower()) == (one == other)


def test_a_name_that_looks_like_the_file_of_another_has_a_file_of_its_own():
    taken = slug("Push The Puck")
    assert taken.startswith("push-the-puck-")
    assert slug(taken) != taken


@pytest.mark.parametrize("name", ["push", "pick-place", "demo_2", "v1.5", "peg-insert-side"])
def test_a_plain_name_is_its_own_file(name):
    assert slug(name) == name
    assert set(slug(name)) <= set(string.ascii_lowercase + string.digits + "-_.")
