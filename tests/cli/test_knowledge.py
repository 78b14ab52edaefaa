"""lefleet knowledge: what a person sees of the pages in a terminal."""

import io
import json
from contextlib import closing

import pytest

from lefleet.actions.people import user_name
from lefleet.knowledge import ingest
from lefleet.knowledge.bundle import FOLDER
from lefleet.ledger import open_ledger, read_ledger
from tests.knowledge.played import demo_like


@pytest.fixture
def folder(tmp_path):
    """The knowledge folder of a demo, in the default work folder."""
    workdir = tmp_path / "runs"
    ledger = open_ledger(workdir)
    demo_like(ledger, workdir)
    ingest(ledger, workdir, "demo")
    ledger.close()
    return workdir / FOLDER


@pytest.mark.parametrize("arguments", [("show",), ("search", "push"), ("lint",)])
def test_without_pages_every_command_says_so_kindly(lefleet, arguments):
    code, out, err = lefleet("knowledge", *arguments)
    assert (code, err) == (0, "")
    assert out.strip() in (
        "No pages yet: they are written after each cycle of lefleet run.",
        "No page has push.",
        "The pages agree with the ledger.",
    )


def test_the_list_names_pages_and_statuses(lefleet, folder):
    code, out, _ = lefleet("knowledge", "show")
    assert code == 0
    assert "tasks/push.md" in out
    assert "observed-once" in out


@pytest.mark.parametrize(
    "name", ["push", "tasks/push.md", "tasks/push", "runs/knowledge/tasks/push.md"]
)
def test_a_page_is_shown_for_reading(lefleet, folder, name):
    code, out, _ = lefleet("knowledge", "show", name)
    assert code == 0
    assert out.startswith("task push: observed-once, updated ")
    for sign in ("<!--", "](", "**", "---\n", "\\"):
        assert sign not in out
    words = " ".join(out.split())
    assert "2 → 8 demonstrations of push (small-act): 0 % → 90 %" in words
    assert out.rstrip().endswith(str(folder / "tasks/push.md"))


def test_a_page_is_also_json(lefleet, folder):
    code, out, _ = lefleet("knowledge", "show", "push", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["name"], found["type"], found["page"]) == ("push", "task", "tasks/push.md")
    assert found["provenance"][0]["run"] == "demo"
    assert "## What was learned" in found["markdown"]
    listed = json.loads(lefleet("knowledge", "show", "--json")[1])
    assert {one["page"] for one in listed} >= {"tasks/push.md", "experiments/demo.md"}


def test_an_unknown_page_suggests_near_ones(lefleet, folder):
    code, _, err = lefleet("knowledge", "show", "pushh")
    assert code == 2
    assert err == "lefleet: page: there is no page pushh. Did you mean tasks/push.md?\n"
    code, _, err = lefleet("knowledge", "show", "\x1b[31mzzz")
    assert (code, "\x1b" in err) == (2, False)


def test_a_name_of_several_pages_asks_which(lefleet, folder):
    page = (folder / "tasks/push.md").read_text()
    (folder / "policies/push.md").write_text(page.replace("type: task", "type: policy"))
    code, _, err = lefleet("knowledge", "show", "push")
    assert code == 2
    assert "Name one of policies/push.md, tasks/push.md." in err
    assert lefleet("knowledge", "show", "tasks/push")[0] == 0


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]0;owned\x07 \x1b[2J",
        "&#27;[31m &#x1b;]0;owned&#7;",
        "[x](&#27;]8;;evil) `\x9b31m`",
        "```\n\x1b[31m\n```\n| a |\n| --- |\n| \x1b[31m |",
    ],
)
def test_a_page_does_not_control_the_terminal(lefleet, folder, text):
    page = folder / "tasks/push.md"
    page.write_text(f"{page.read_text()}\n{text}\n")
    code, out, _ = lefleet("knowledge", "show", "push")
    assert code == 0
    assert all(letter.isprintable() for letter in out.replace("\n", ""))
    code, out, _ = lefleet("knowledge", "search", "owned", "31m", "x", "a")
    assert all(letter.isprintable() for letter in out.replace("\n", ""))


def test_a_broken_page_says_where_to_mend_it(lefleet, folder):
    page = folder / "tasks/push.md"
    page.write_text(page.read_text().replace("name: push", "name: [push"))
    code, _, err = lefleet("knowledge", "show", "push")
    assert code == 2
    assert "tasks/push.md cannot be read: front matter is not YAML in line" in err
    assert str(page) in err
    assert "unreadable" in lefleet("knowledge", "show")[1]


def test_search_shows_the_line_that_fits(lefleet, folder):
    code, out, _ = lefleet("knowledge", "search", "PICK-place", "70")
    assert code == 0
    first, line, *_ = out.splitlines()
    assert first.startswith("tasks/pick-place.md:")
    assert "2 → 8 demonstrations of pick-place" in line
    assert max(len(one) for one in out.splitlines()) < 170
    found = json.loads(lefleet("knowledge", "search", "pick-place", "--json")[1])
    assert found[0]["page"] == "tasks/pick-place.md"


def test_search_without_a_word_is_a_mistake(lefleet, folder):
    assert lefleet("knowledge", "search")[0] == 2
    assert lefleet("knowledge", "search", " ")[0] == 2


def test_lint_exits_with_1_where_it_finds_something(lefleet, folder):
    page = folder / "tasks/push.md"
    page.write_text(page.read_text().replace("name: push", "name: [push"))
    code, out, _ = lefleet("knowledge", "lint")
    assert code == 1
    assert "tasks/push.md unreadable: LeFleet leaves this page alone" in out
    code, out, _ = lefleet("knowledge", "lint", "--json")
    assert code == 1
    assert "unreadable" in {one["rule"] for one in json.loads(out)}


def test_update_writes_what_is_missing_and_says_what(lefleet, folder):
    (folder / "tasks/push.md").unlink()
    code, out, _ = lefleet("knowledge", "update")
    assert (code, out) == (0, "tasks/push.md\n1 page written.\n")
    assert lefleet("knowledge", "update")[1] == "All pages are up to date.\n"
    assert json.loads(lefleet("knowledge", "update", "--json")[1]) == {"changed": []}


def test_update_without_a_ledger_names_the_remedy(lefleet):
    code, _, err = lefleet("knowledge", "update")
    assert code == 2
    assert "there is no ledger" in err


def test_a_page_is_edited_from_a_file_or_stdin(lefleet, folder, tmp_path, monkeypatch):
    page = folder / "tasks/push.md"
    before = json.loads(lefleet("knowledge", "show", "push", "--json")[1])["digest"]
    new = tmp_path / "new.md"
    new.write_text(page.read_text() + "\nWatch the gripper.\n")
    code, out, _ = lefleet("knowledge", "edit", "push", "--file", str(new), "--base", before)
    assert (code, out) == (0, "tasks/push.md is saved.\n")
    assert page.read_text() == new.read_text()
    assert lefleet("knowledge", "edit", "push", "--file", str(new))[1].endswith("text already.\n")
    with closing(read_ledger(folder.parent)) as ledger:
        assert [one.who for one in ledger.sections.edits("tasks/push.md")] == [user_name()]
    other = new.read_bytes() + b"More.\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(other)))
    code, out, _ = lefleet("knowledge", "edit", "tasks/push.md", "--file", "-", "--json")
    assert (code, json.loads(out)["is_changed"], page.read_bytes()) == (0, True, other)
    code, _, err = lefleet("knowledge", "edit", "push", "--file", str(new), "--base", before)
    assert (code, page.read_bytes()) == (1, other)
    assert "has been changed since you opened it" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "file: none.md cannot be read: No such file or directory."),
        (b"\xff", "file: none.md is not UTF-8 text."),
        (b"words", "text: tasks/push.md would be broken: it does not begin with front matter"),
    ],
)
def test_what_cannot_become_a_page_is_a_sentence(lefleet, folder, tmp_path, content, message):
    before = (folder / "tasks/push.md").read_bytes()
    if content is not None:
        (tmp_path / "none.md").write_bytes(content)
    code, out, err = lefleet("knowledge", "edit", "push", "--file", "none.md")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert (folder / "tasks/push.md").read_bytes() == before
