"""The page about knowledge names what the code has, and so does the one beside the pages."""

import re
from pathlib import Path
from typing import get_args

import pytest

from lefleet.cli.knowledge import KNOWLEDGE_COMMANDS
from lefleet.knowledge.bundle import FOLDERS, shipped
from lefleet.knowledge.front_matter import FrontMatter, PageStatus
from lefleet.knowledge.lint import LintRule

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are in the repository only")


def first_cells(text: str, title: str) -> set[str]:
    """Code in the first column of the tables of a section."""
    section = re.split(r"^## ", text.partition(f"\n## {title}\n")[2], flags=re.MULTILINE)[0]
    cells = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_every_rule_status_and_command_is_explained():
    text = (DOCS / "knowledge.md").read_text()
    assert first_cells(text, "Lint") == set(get_args(LintRule))
    assert first_cells(text, "Lessons and their statuses") == set(get_args(PageStatus))
    assert all(f"lefleet {name}" in text for name in KNOWLEDGE_COMMANDS)
    assert all(f"`{folder}/<" in text for folder in FOLDERS.values())


def test_the_explanation_beside_the_pages_has_every_field_and_status():
    text = shipped("KNOWLEDGE.md").decode()
    assert first_cells(text, "Front matter") == set(FrontMatter.__struct_fields__)
    assert first_cells(text, "Statuses") == set(get_args(PageStatus))


def test_the_example_in_python_can_be_imported():
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "knowledge.md").read_text(), re.DOTALL)
    exec("\n".join(line for line in code.splitlines() if line.startswith("from ")))
