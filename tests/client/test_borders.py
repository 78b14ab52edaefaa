"""What holds for every module of the client."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lefleet_client import transport, wire

CLIENT = Path(__file__).parents[2] / "client" / "src" / "lefleet_client"
MODULES = sorted(CLIENT.rglob("*.py"))
PACKAGES = sorted({path.parent for path in MODULES} - {CLIENT})
LIBRARIES = {
    "wire": {"msgspec", "numpy", "simplejpeg"},
    "transport": {"msgspec", "zenoh", "lefleet_client.wire"},
    "__init__": set(),
}
PUBLIC = {
    wire: """ActionChunk BadBody BadHeader BadImage BadKey BadTensor Body CHUNK ClientKeys Contract
        Draining EVENT Event Frame Header HeaderReader Image MAX_MESSAGE_BYTES MessageType
        NoCommonVersion OBSERVATION OLDEST_VERSION Observation ParsedKey RESET RESET_REPLY
        RequestFailed Reset ResetAck ResetReply SCHEMA_VERSION SESSION_REPLY SESSION_REQUEST STATUS
        ServerKeys ServiceKeys SessionAck SessionClose SessionCloseAck SessionClosed SessionOpen
        SessionRejected SessionReply SessionRequest Status Tensor WireError agree decode_image
        decode_tensor encode_image encode_tensor parse_key slug""",
    transport: """ACTION AnswerFailed Answers BadExpression BadSettings CannotOpen Closed Declared
        MemoryNetwork MemoryTransport NoAnswer OBSERVATION Publisher Qos Question Reply Sample Slot
        Tls Transport TransportError ZenohSettings ZenohTransport ask_one""",
}


def name_of(path: Path) -> str:
    return str(path.relative_to(CLIENT))


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    plain = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    return {
        *plain,
        *(n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module),
    }


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_each_folder_imports_its_libraries_and_nothing_else(path):
    folder = path.relative_to(CLIENT).parts[0].removesuffix(".py")
    allowed = {*LIBRARIES[folder], f"lefleet_client.{folder}", *sys.stdlib_module_names}
    foreign = {
        name
        for name in imported(path)
        if not any(name == other or name.startswith(f"{other}.") for other in allowed)
    }
    assert foreign == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_short_and_say_what_they_are_for(path):
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 300


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_syntax_is_that_of_python_3_10(path):
    ast.parse(path.read_text(), feature_version=(3, 10))


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_folder_lists_its_modules(package):
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    listed = re.findall(r"^    (\w+(?:, \w+)*)  +\w", text, re.MULTILINE)
    names = {name for group in listed for name in group.split(", ")}
    assert names == {path.stem for path in package.glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_public_names_are_pinned(module):
    assert sorted(module.__all__) == sorted(PUBLIC[module].split())


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [("wire", {"zenoh", "torch", "lerobot"}), ("transport", {"torch", "lerobot"})],
)
def test_importing_loads_nothing_else(module, unwanted):
    code = f"import lefleet_client.{module}, sys, json; print(json.dumps(sorted(sys.modules)))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(child.stdout))
    assert f"lefleet_client.{module}" in loaded
    assert loaded.isdisjoint({*unwanted, "lefleet"})
