"""Front matter: our fields change, everything else in it stays byte for byte."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet.knowledge.bundle import shipped
from lefleet.knowledge.fences import Unreadable
from lefleet.knowledge.front_matter import (
    FrontMatter,
    PageSource,
    changed,
    read_page,
    read_yaml,
    written,
)

FIELDS = {
    "name": "push",
    "type": "task",
    "status": "observed-once",
    "updated": "2026-01-01T00:00:00.000Z",
    "provenance": [{"run": "demo", "cycle": 0, "events": [1, 2]}],
    "lessons": {"a": "observed-once"},
}
PAGE = f"---\n{written(FIELDS)}---\n\ntext\n"


def with_front(text: str) -> str:
    return f"---\n{text}---\nbody\n"


def test_a_page_has_its_fields_and_its_body():
    page = read_page(PAGE)
    assert page.front.provenance == (PageSource(run="demo", cycle=0, events=(1, 2)),)
    assert page.body == "\ntext\n"
    assert page.text() == PAGE


@given(st.text(max_size=40))
def test_any_name_survives_the_way_through_yaml(name):
    shown = "".join(letter for letter in name if letter.isprintable())
    assert read_yaml(written(FIELDS | {"name": shown}))["name"] == shown


def test_fields_and_comments_of_people_stay_as_they_are():
    before = (
        "# ours to keep\n"
        "owner:   anna   # who looks after it\n"
        f"{written(FIELDS)}"
        "\n"
        "tags: [arm,\n"
        "  puck]\n"
        "note: |\n"
        "  updated: not this one\n"
    )
    page = changed(
        read_page(with_front(before)),
        {"updated": "2026-02-02T00:00:00.000Z", "provenance": [], "state": "finished"},
    )
    text = page.text()
    for kept in (
        "# ours to keep\n",
        "owner:   anna   # who looks after it\n",
        "\ntags: [arm,\n  puck]\n",
        "note: |\n  updated: not this one\n",
    ):
        assert kept in text
    assert page.fields["tags"] == ["arm", "puck"]
    assert page.front.updated == "2026-02-02T00:00:00.000Z"
    assert page.front.provenance == ()
    assert page.front.state == "finished"


def test_a_field_that_has_its_value_already_is_not_written_again():
    text = PAGE.replace("name: push", 'name:   "push"  # by hand')
    assert changed(read_page(text), FIELDS).text() == text


def test_line_breaks_of_another_system_are_kept():
    text = PAGE.replace("\n", "\r\n")
    page = changed(read_page(text), {"status": "replicated"})
    assert page.front.status == "replicated"
    assert page.text().count("\n") == page.text().count("\r\n")


@pytest.mark.parametrize(
    ("text", "why", "is_schema"),
    [
        ("no front matter\n", "does not begin with front matter", False),
        ("---\nname: push\n", "does not begin with front matter", False),
        (with_front("name: [\n"), "not YAML in line", False),
        (with_front("- a\n"), "not a list of fields", False),
        (with_front("a: &x 1\nb: *x\n"), "not YAML", False),
        (with_front(written(FIELDS) + "status: replicated\n"), "not YAML", False),
        (with_front("name: " + "[" * 5000 + "\n"), "not YAML", False),
        (PAGE.replace("observed-once", "certain"), "status", True),
        (PAGE.replace("updated: '2026-01-01T00:00:00.000Z'", "updated: soon"), "updated", True),
        (PAGE.replace("name: push", "name: 3"), "name", True),
        ("x" * 4_000_001, "longer than", False),
    ],
)
def test_a_page_that_people_broke_says_why(text, why, is_schema):
    with pytest.raises(Unreadable, match=why) as error:
        read_page(text)
    assert error.value.is_schema == is_schema


def test_front_matter_in_a_form_that_cannot_be_edited_is_refused():
    text = with_front("{" + ", ".join(f"{k}: {json.dumps(v)}" for k, v in FIELDS.items()) + "}\n")
    page = read_page(text)
    with pytest.raises(Unreadable, match=r"cannot be changed|not YAML"):
        changed(page, {"updated": "2026-02-02T00:00:00.000Z"})


def test_the_shipped_schema_says_what_the_type_says():
    schema = json.loads(shipped("schema.json"))
    ours = msgspec.json.schema(FrontMatter)["$defs"]["FrontMatter"]
    assert set(schema["required"]) == set(ours["required"])
    assert set(schema["properties"]) == set(ours["properties"])
    statuses = schema["$defs"]["status"]["enum"]
    assert set(statuses) == set(ours["properties"]["status"]["enum"])
    assert set(schema["properties"]["type"]["enum"]) == set(ours["properties"]["type"]["enum"])
    assert schema["properties"]["updated"]["pattern"] == ours["properties"]["updated"]["pattern"]
