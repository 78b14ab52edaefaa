"""The wall clock of a robot may jump, by a person or by NTP: nothing here reads it."""

import ast
from pathlib import Path

import pytest

import lefleet.edge
import lefleet_client.remote
import lefleet_client.stream

WALL_CLOCKS = {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "now", "utcnow"}
"""Of the modules time and datetime."""
NOT_DECIDING = {("policy.py", "datetime.now")}
"""Whether a certificate expires soon is a question to the wall clock; the answer is a warning."""


def modules():
    packages = (lefleet.edge, lefleet_client.stream, lefleet_client.remote)
    return [file for one in packages for file in sorted(Path(one.__file__).parent.glob("*.py"))]


def wall_clocks(source: str) -> set[str]:
    """Calls and imports in this module that read the wall clock."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("time", "datetime") and node.attr in WALL_CLOCKS:
                found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found |= {f"time.{one.name}" for one in node.names if one.name in WALL_CLOCKS}
    return found


@pytest.mark.parametrize("file", modules(), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_no_module_of_the_edge_reads_the_wall_clock(file):
    found = {(file.name, one) for one in wall_clocks(file.read_text())}
    assert found <= NOT_DECIDING


@pytest.mark.parametrize("source", ["import time\ntime.time()", "from time import time_ns"])
def test_a_wall_clock_is_noticed(source):
    assert wall_clocks(source)
