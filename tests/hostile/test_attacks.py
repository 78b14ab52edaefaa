"""Every attack at full rate: the honest robot beside it gets every answer, and little is left."""

import io
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from lefleet.cli.output import event_handler
from lefleet.constitution import installed
from lefleet.process import launch, stop
from lefleet_client.remote import RemotePolicy
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.client.transport.networks import FREE_PORT, QUICK, endpoint_of
from tests.hostile.attacks import ATTACKS, FAILED
from tests.permissive import EVERYTHING
from tests.policy import tiny
from tests.server.serving import eventually, loaded, observation, serving

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
LONGEST_S = 1200
SHORT_S = 0.5
LONG_S = 30.0
MOST_MEMORY = 256 * MIB
MOST_LOGGED = MIB
LOGGED_PER_S = 16 * 1024
"""A log has some hundred lines at once for each place that writes them, then a few a second:
sessions that are opened, closed and refused have lines, however fast the machine is."""


class Counters:
    """What the server counts: drops by reason, and failed requests of hostile robots."""

    def __init__(self, service):
        self._service = service

    def of(self, reason: str) -> int:
        if reason != FAILED:
            return self._service.dropped.get(reason, 0)
        clients = self._service.status(with_clients=True).clients
        return sum(one.failed for one in clients if one.client_id.startswith("hostile"))


class LogSize(io.TextIOBase):
    """Counts the characters of the log that `lefleet serve` would write."""

    def __init__(self):
        self.size = 0
        self.last = ""

    def write(self, text):
        self.last = text
        self.size += len(text)
        return len(text)


class Scene:
    """A server that listens itself, a robot that behaves, and a process that does not."""

    def __init__(self, folder: Path):
        checkpoint = tiny.act_images(folder)
        self.policy = loaded(checkpoint)
        settings = ZenohSettings(mode="peer", listen=(FREE_PORT,), extra=QUICK)
        self._node = ZenohTransport.open(settings)
        self.endpoint = endpoint_of(self._node._session, "peer")
        self._serving = serving(checkpoint, self.policy, self._node, first_request_s=0.5)
        self.service = self._serving.__enter__()
        self.robot = RemotePolicy(
            self.endpoint, "test", client_id="honest", timeout_s=30, image_codec="raw"
        )
        self.expected = self.ask()

    def ask(self) -> np.ndarray:
        return self.robot.infer(observation(self.policy, 0), noise_seed=0).robot

    def close(self):
        self.robot.close()
        self._serving.__exit__(None, None, None)
        self._node.close()


class Attacker:
    """The process that attacks the scene's server."""

    def __init__(self, scene: Scene):
        self._scene = scene
        with installed(EVERYTHING):
            self._process = launch(
                [sys.executable, "-m", "tests.hostile.attacker", str(LONGEST_S)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
            )

    def order(self, do: str, **values) -> dict:
        """Have it do something, and ask for chunks meanwhile: how many came is added."""
        self._process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")
        self._process.stdin.flush()
        said: list[bytes] = []
        reader = threading.Thread(target=lambda: said.append(self._process.stdout.readline()))
        reader.start()
        answers = 0
        while reader.is_alive():
            np.testing.assert_array_equal(self._scene.ask(), self._scene.expected)
            answers += 1
        assert said[0], "the attacker ended"
        return {**json.loads(said[0]), "answers": answers}

    def close(self):
        stop(self._process)
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("act_images"))
    yield scene
    scene.close()


@pytest.fixture(scope="module")
def attacker(scene):
    attacker = Attacker(scene)
    yield attacker
    attacker.close()


@pytest.fixture
def log():
    logger = logging.getLogger("lefleet")
    written = LogSize()
    handler, level = event_handler(written), logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield written
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("seconds", [SHORT_S, pytest.param(LONG_S, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("name", ATTACKS)
def test_an_honest_robot_gets_every_answer_beside(scene, attacker, log, name, seconds):
    attacker.order("prepare", name=name, endpoint=scene.endpoint)
    counters = Counters(scene.service)
    before = {reason: counters.of(reason) for reason in ATTACKS[name].counted}
    resident = _resident()
    done = attacker.order("attack", seconds=seconds)
    assert done["sent"] > 0
    assert done["answers"] > 0
    np.testing.assert_array_equal(scene.ask(), scene.expected)
    for reason, count in before.items():
        eventually(lambda reason=reason, count=count: counters.of(reason) > count)
    assert _resident() - resident < MOST_MEMORY
    assert log.size < MOST_LOGGED + LOGGED_PER_S * seconds, log.last
    assert scene.service.status().sessions <= scene.service.status().max_sessions


@pytest.mark.usefixtures("any_program")
def test_the_attacker_ends_by_itself():
    """After its time, whatever it does; with its input; and with its parent."""
    argv = [sys.executable, "-m", "tests.hostile.attacker"]
    late = launch([*argv, "0.1"], stdin=subprocess.PIPE, cwd=ROOT)
    assert late.wait(20) == 3
    late.stdin.close()
    left = launch([*argv, "600"], stdin=subprocess.PIPE, cwd=ROOT)
    left.stdin.close()
    assert left.wait(20) == 0


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
