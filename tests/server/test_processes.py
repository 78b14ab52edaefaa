"""Real processes: asked to stop in mid-request, killed, started again."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from lefleet_client.remote import RemoteChunk, RemotePolicy, ServerDraining, discover
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.server.serving import eventually, observation

pytestmark = pytest.mark.slow


class Server:
    """A server process behind a router."""

    def __init__(self, checkpoint, router, name="only", module="lefleet"):
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                module,
                "serve",
                f"--model.repo_or_path={checkpoint}",
                "--service_name=test",
                f"--server_name={name}",
                f"--zenoh.connect=[{router.endpoint}]",
                "--audit=none",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.said.append(line)

    def ready(self) -> "Server":
        eventually(lambda: self.process.poll() is not None or self._says("event=ready"), 60)
        assert self.process.poll() is None, "".join(self.said)
        return self

    def _says(self, text: str) -> bool:
        return any(text in line for line in self.said)

    def ended(self) -> int:
        code = self.process.wait(30)
        self._reader.join(10)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.ended()


def test_asked_to_stop_in_mid_request_it_answers_first(checkpoint, policy, router):
    server = Server(checkpoint, router, module="tests.server.gated").ready()
    robot = RemotePolicy(router.endpoint, "test", client_id="arm", timeout_s=30)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(robot.infer(observation(policy, 0))))
    asking.start()
    assert server.process.stdout.readline() == "begun\n"
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: server._says("event=draining"))
    with pytest.raises(ServerDraining):
        RemotePolicy(router.endpoint, "test", client_id="late", timeout_s=5)
    assert not answers
    server.process.stdin.write("go\n")
    server.process.stdin.flush()
    asking.join(30)
    assert server.ended() == 0
    assert answers[0].robot.shape == (
        policy.capabilities.chunk_size,
        len(policy.contract.action_names),
    )
    robot.close()


def test_a_second_signal_ends_it_at_once(checkpoint, policy, router):
    server = Server(checkpoint, router, module="tests.server.gated").ready()
    robot = RemotePolicy(router.endpoint, "test", client_id="arm", timeout_s=30)
    asking = threading.Thread(target=_ask_in_vain, args=(robot, policy), daemon=True)
    asking.start()
    assert server.process.stdout.readline() == "begun\n"
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: server._says("event=draining"))
    server.process.send_signal(signal.SIGTERM)
    assert server.ended() == 128 + signal.SIGTERM
    robot.close()


def _ask_in_vain(robot, policy):
    with pytest.raises(Exception):  # noqa: B017, PT011 - the server is gone, in whatever way
        robot.infer(observation(policy, 0))


def test_robots_go_on_when_a_replica_is_killed_and_when_the_last_one_is_started_again(
    checkpoint, policy, router
):
    servers = {name: Server(checkpoint, router, name) for name in ("left", "right")}
    for server in servers.values():
        server.ready()
    fleet = [
        RemotePolicy(router.endpoint, "test", client_id=f"robot {number}", timeout_s=120)
        for number in range(4)
    ]

    def ask() -> list[RemoteChunk]:
        return [robot.infer(observation(policy, 0), noise_seed=0) for robot in fleet]

    expected = ask()[0].robot
    killed = fleet[0].server
    servers.pop(killed).kill()
    (left_over,) = servers
    for answer in ask():
        np.testing.assert_array_equal(answer.robot, expected)
        assert answer.server == left_over
    with ZenohTransport.open(ZenohSettings(connect=(router.endpoint,))) as node:
        (status,) = discover(node, "test", timeout_s=5.0)
    assert status.sessions == 4
    servers.pop(left_over).kill()
    again = Server(checkpoint, router, left_over)
    for answer in ask():
        np.testing.assert_array_equal(answer.robot, expected)
    for robot in fleet:
        robot.close()
    again.process.send_signal(signal.SIGTERM)
    assert again.ended() == 0
