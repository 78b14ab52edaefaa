"""Events, reasons, checks and exit codes in the pages are those in the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lefleet.cli.report import WAITING
from lefleet.errors import BadInput, Denied, LeFleetError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "lefleet"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are in the repository only")


def page(name: str) -> str:
    return (DOCS / name).read_text()


def all_pages() -> str:
    return "".join(path.read_text() for path in (*DOCS.glob("*.md"), ROOT / "README.md"))


def section(text: str, title: str) -> str:
    return re.split(r"^## ", text.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]


def first_cells(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("| "):
            yield line.split("|")[1]


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([\w.]+)`", text))


def server_trees() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in (SOURCE / "server").glob("*.py")]


def dropped_reasons() -> set[str]:
    """The reasons that have a series in the metrics from the start."""
    for tree in server_trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and "_REASONS" in ast.unparse(node.targets[0]):
                return set(ast.literal_eval(node.value))
    raise AssertionError("the server has no table of reasons")


def checks() -> set[str]:
    """What a server may refuse a session for: the first words of what the handshake yields, and
    those of replies that are made elsewhere."""
    found = set()
    for node in (node for tree in server_trees() for node in ast.walk(tree)):
        if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
            found.add(node.value.elts[0])
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("SessionRejected"):
            found |= {one.value for one in node.keywords if one.arg == "check"}
    return {one.value for one in found if isinstance(one, ast.Constant)}


def events() -> set[str]:
    """Events that operators see: those of all levels but debug, and lines of other libraries."""
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    levels = "info|warning|error|exception"
    return {"log", *re.findall(rf"_LOG\.(?:{levels})\(\s*f?\"event=(\w+)", text)}


def test_every_event_in_a_log_is_explained_and_no_other():
    table = section(page("operations.md"), "Logs").partition("**Audit lines**")[0]
    explained = set().union(*(quoted(cell) for cell in first_cells(table)))
    assert explained | {"stopped_before_ready"} == events()
    assert "`stopped_before_ready`" in table


def test_events_that_pages_mention_exist():
    assert set(re.findall(r"event=(\w+)", all_pages())) <= events()


def test_reasons_for_dropped_messages_are_those_of_the_metrics():
    (row,) = re.findall(r"^\| `lefleet_dropped_total.*$", page("operations.md"), re.MULTILINE)
    assert quoted(row.split("|")[3]) == dropped_reasons()
    assert set(re.findall(r"event=dropped reason=(\w+)", all_pages())) <= dropped_reasons()


def test_every_check_that_refuses_a_session_is_explained_and_no_other():
    explained = set().union(
        *map(quoted, first_cells(section(page("troubleshooting.md"), "Refused")))
    )
    assert explained == checks()


def test_exit_codes_are_those_of_the_errors():
    codes = {0, LeFleetError.exit_code, BadInput.exit_code, Denied.exit_code, 130}
    for text, own in (
        ((ROOT / "README.md").read_text(), codes | {WAITING}),
        (page("stages.md"), codes),
        (page("loop.md"), codes | {WAITING}),
    ):
        tables = re.findall(
            r"^\| (?:exit )?code \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE
        )
        assert [set(map(int, first_cells(table))) for table in tables] == [own]
