"""The lab of the security page, followed to the letter: real processes, real TLS, on loopback.

Only addresses and ports are replaced, and the checkpoint is a small one.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
import zenoh

from lefleet.server.manifest import manifest_of
from lefleet_client.remote import NoServer, RemotePolicy
from lefleet_client.transport import Tls, ZenohSettings, ZenohTransport
from tests.cli.child import Child, reserved_port
from tests.cli.conftest import blessed_workdir  # noqa: F401 - a fixture
from tests.client.remote.scripted import ScriptedServer, observation
from tests.client.transport.networks import endpoint_of

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
pytestmark = [
    pytest.mark.skipif(not PAGE.is_file(), reason="the pages are in the repository only"),
    pytest.mark.slow,
]
FIVE_MINUTES = "A lab in five minutes"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    """From a heading to the next one, of whatever level."""
    text = PAGE.read_text().partition(f"# {title}\n")[2]
    assert text
    return re.split(r"^##+ ", text, flags=re.MULTILINE)[0]


def blocks(title: str) -> Iterator[tuple[str, str]]:
    """Languages and texts of a section's blocks, in order."""
    yield from ((one[1], one[2]) for one in BLOCK.finditer(section(title)))


def robot_program() -> str:
    (program,) = [text for language, text in blocks(FIVE_MINUTES) if language == "python"]
    return program


@dataclass
class Lab:
    """A machine on which the page is followed."""

    folder: Path
    ports: dict[str, str]
    stack: ExitStack
    running: dict[str, Child] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)

    def here(self, text: str) -> str:
        for port, free in self.ports.items():
            text = text.replace(f"10.0.0.5:{port}", f"127.0.0.1:{free}")
        return text.replace("10.0.0.5", "127.0.0.1")

    def follow(self, title: str) -> None:
        for language, text in blocks(title):
            if language == "python":
                code, self.printed["python"] = self.python(text)
                assert code == 0, self.printed["python"]
                continue
            assert language == "sh"
            for line in text.splitlines():
                self.type(line)

    def type(self, line: str) -> None:
        program, *arguments = shlex.split(self.here(line))
        assert program == "lefleet"
        if arguments[0] in ("router", "serve"):
            child = self.stack.enter_context(Child(*arguments, folder=self.folder))
            child.wait_for(lambda child: any("Ctrl-C" in one for one in child.out + child.err))
            self.running[arguments[0]] = child
            return
        code, self.printed[line] = self.run("-m", "lefleet", *arguments)
        assert code == 0, self.printed[line]

    def python(self, text: str) -> tuple[int, str]:
        return self.run("-c", self.here(text))

    def run(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def lab(tmp_path_factory, request) -> Iterator[Lab]:
    """Everything up to the last step was done as the page says."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "runs").symlink_to(request.getfixturevalue("blessed_workdir"))
    with reserved_port() as one, reserved_port() as two, ExitStack() as stack:
        lab = Lab(folder, {"7447": str(one), "7448": str(two)}, stack)
        lab.follow(FIVE_MINUTES)
        yield lab


def test_the_robot_got_a_chunk_from_the_server_that_the_certificate_names(lab):
    assert lab.printed["python"].startswith("gpu (")


def test_the_operator_sees_the_server_and_measures_it(lab):
    printed = {line.split()[1]: text for line, text in lab.printed.items() if " " in line}
    assert re.search(r"^ demo .* gpu +ready", printed["fleet"], re.MULTILINE)
    assert "20 answers from gpu" in printed["ping"]


def test_the_revoked_robot_finds_no_server_and_the_operator_still_does(lab):
    lab.running["router"].wait_for(lambda router: any("reopened" in one for one in router.err))
    code, printed = lab.python(robot_program())
    assert code == 1
    assert "no server answers" in printed
    lab.type("lefleet ping demo --connect tls/10.0.0.5:7447 --tls certs/operator-ann")


def test_a_server_that_listens_itself_serves_too(lab):
    lab.type("lefleet certs robot arm-8")
    lab.follow("Without a router")
    text = robot_program().replace("7447", "7448").replace("arm-7", "arm-8")
    assert lab.python(text)[1].startswith("gpu-2 (")


def test_a_manifest_takes_the_folder(lab):
    ((language, text),) = blocks("In files")
    assert language == "yaml"
    model = {"model": {"repo_or_path": "x"}}
    manifest = manifest_of(
        model | yaml.safe_load(lab.here(text).replace("certs/", f"{lab.folder}/certs/"))
    )
    assert manifest.zenoh.tls.key == f"{lab.folder}/certs/server-gpu/key.pem"


def test_the_settings_for_zenohd_let_robots_and_servers_meet(lab):
    """Loaded from Python, which has the same library as the program zenohd."""
    ((_, command), (language, text)) = blocks("zenohd")
    assert language == "json5"
    assert command.strip() == "lefleet certs list --zenoh > access_control.json"
    lab.type("lefleet certs robot arm-9")
    lab.type("lefleet certs list --zenoh")
    access_control = lab.printed["lefleet certs list --zenoh"]
    text = lab.here(text).replace(lab.ports["7447"], "0")
    text = text.replace("access_control: {}", f"access_control: {access_control}")
    config = zenoh.Config.from_json5(text.replace("certs/", f"{lab.folder}/certs/"))
    config.insert_json5("adminspace/enabled", "true")
    with zenoh.open(config) as router:
        endpoint = endpoint_of(router, "router")
        tls = Tls.folder(lab.folder / "certs/server-gpu")
        robot = lab.folder / "certs/robot-arm-9"
        with ZenohTransport.open(ZenohSettings(connect=(endpoint,), tls=tls)) as node:
            ScriptedServer(node, "gpu")
            with RemotePolicy(endpoint, "fold", tls=robot) as policy:
                assert policy.infer(observation(image=True)).server == "gpu"
            sold = lab.folder / "certs/robot-arm-7"
            with pytest.raises(NoServer):
                RemotePolicy(endpoint, "fold", tls=sold, timeout_s=1.0)
