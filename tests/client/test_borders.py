"""What holds for every module of the client."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lefleet_client
from lefleet_client import remote, stream, testing, transport, wire

CLIENT = Path(__file__).parents[2] / "client" / "src" / "lefleet_client"
MODULES = sorted(CLIENT.rglob("*.py"))
PACKAGES = sorted({path.parent for path in MODULES} - {CLIENT})
LIBRARIES = {
    "wire": {"msgspec", "numpy", "simplejpeg", "cv2"},
    "transport": {"msgspec", "zenoh", "lefleet_client.wire"},
    "remote": {"numpy", "cv2", "lefleet_client.wire", "lefleet_client.transport"},
    "stream": {
        "numpy",
        "lefleet_client.wire",
        "lefleet_client.transport",
        "lefleet_client.remote",
    },
    "testing": {"zenoh", "lefleet_client.transport"},
    # Only for type checkers: the test below sees that nothing is loaded.
    "__init__": {"lefleet_client.remote"},
}
PUBLIC = {
    wire: """
        ActionChunk BadBody BadHeader BadImage BadKey BadTensor Body BodyLimits CHUNK Capabilities
        ClientKeys CodecChoice Contract Draining EVENT Event Frame Header Image MAX_HISTORY
        MAX_IMAGE_PIXELS MAX_MESSAGE_BYTES MAX_OBSERVATION_PIXELS MessageType NEWER NoCommonVersion
        OBSERVATION OLDEST_VERSION Observation ObservationLimits ParsedKey ParsedRobotKey Probed
        REPLACED RESET RESET_REPLY ROBOT_STATUS RequestFailed Reset ResetAck ResetReply RobotKeys
        RobotStatus SCHEMA_VERSION SESSION_REPLY
        SESSION_REQUEST STATUS STATUS_REQUEST ServerKeys
        ServerStatus ServiceKeys SessionAck SessionClose SessionCloseAck SessionClosed
        SessionOpen SessionRejected SessionReply SessionRequest SessionStatus StatusRequest
        Tensor WireError agree decode_image decode_images decode_observation decode_tensor
        encode_image encode_images encode_tensor matching_robots matching_servers
        observation_limits parse_key parse_robot_key slug""",
    transport: """
        ACTION AnswerFailed Answers BadExpression BadSettings CannotListen CannotOpen
        CertificateIdentity CloseAtExit Closed Declared Forked NoAnswer OBSERVATION Publisher Qos
        Question Reply Sample ThreadsEnded Tls Transport TransportError ZenohFailed ZenohSettings
        ZenohTransport ask_one certificate_identity certified_name is_gone
        require_usable tls_warnings""",
    testing: "MemoryNetwork MemoryTransport",
    stream: """ActionStream Executed FailSafe FailSafeLimits Fallback LockStep Mode Origin
        StreamSettings StreamStatus""",
    remote: """BadChunk BadObservation ConnectionNotice NoServer PingReport Refused RemoteChunk
        RemoteError RemotePolicy Replaced RequestRejected RobotFeatures RobotReport RobotsFound
        ServerDraining SessionLost SeveralServices Spread TimedOut Timing WrongModel discover
        discover_robots example_observation ping watch_robots""",
    lefleet_client: "RemoteError RemotePolicy RobotFeatures",
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
    named = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
    folders = [
        f"{node.module}.{alias.name}"
        for node in named
        if node.module == "lefleet_client"
        for alias in node.names
    ]
    return {*plain, *folders, *(n.module for n in named if n.module != "lefleet_client")}


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
    assert len(text.splitlines()) <= 350


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
    [
        ("lefleet_client", {"zenoh", "torch", "lerobot", "numpy", "msgspec"}),
        ("lefleet_client.wire", {"zenoh", "torch", "lerobot", "cv2"}),
        ("lefleet_client.transport", {"torch", "lerobot", "cv2"}),
        ("lefleet_client.remote", {"torch", "lerobot", "cv2"}),
        ("lefleet_client.stream", {"torch", "lerobot", "cv2"}),
    ],
)
def test_importing_loads_nothing_else(module, unwanted):
    code = f"import {module}, sys, json; print(json.dumps(sorted(sys.modules)))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(child.stdout))
    assert module in loaded
    assert loaded.isdisjoint({*unwanted, "lefleet", "lefleet_client.testing"})


def test_the_names_of_the_package_are_there_when_they_are_used():
    assert lefleet_client.RemotePolicy is remote.RemotePolicy
    with pytest.raises(AttributeError, match="RemotePolice"):
        _ = lefleet_client.RemotePolice
