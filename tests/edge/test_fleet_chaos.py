"""Eight simulated robots at work on one server, with faults drawn from a seed.

`LEFLEET_CHAOS_S=20 make chaos` makes it shorter.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import groupby

import pytest

from lefleet.stages.references import find_checkpoint
from tests.client.transport.waiting import eventually
from tests.edge.cell import SIM, SimServer, loaded, provenance, recording
from tests.edge.plant import ROOT, RouterProcess
from tests.edge.proxy import Proxy

pytestmark = pytest.mark.chaos

ROBOTS = 8
SECONDS = float(os.environ.get("LEFLEET_CHAOS_S", "120"))
STARTED_S = 240.0
"""Eight processes import LeRobot on two cores."""
EXPLAINED = re.compile(r"(stalled|reconnecting): \S")
FPS = 20
"""Slower than the world, so that eight of them leave time to the server."""


class RobotProcess:
    """`lefleet rollout` in a process, over a link of its own; `log` is what it writes."""

    def __init__(self, number: int, router: str, folder) -> None:
        self.name = f"arm-{number}"
        self.root = folder / self.name
        self._file = folder / f"{self.name}.log"
        self.link = Proxy(router, number)
        self.link.__enter__()
        flags = [
            *SIM,
            f"--fps={FPS}",
            f"--robot.seed={100_000_000 + 1000 * number}",
            "--inference.type=remote",
            f"--inference.connect={self.link.endpoint}",
            f"--inference.client_id={self.name}",
            "--inference.max_offline_s=300",
            "--inference.request_timeout_s=2",
            "--strategy.type=episodic",
            "--dataset.num_episodes=1000",
            "--dataset.episode_time_s=5",
            *recording(self.root),
        ]
        with self._file.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lefleet", "rollout", *flags],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        return self._file.read_text()

    @property
    def is_driven(self) -> bool:
        assert self.process.poll() is None, self.log[-3000:]
        return "streaming" in self.log

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.link.__exit__()


class Faults:
    """Each lasts a few seconds, and some overlap."""

    def __init__(self, robots: list[RobotProcess], start_server, seed: int) -> None:
        self._robots = robots
        self._start_server = start_server
        self.server = start_server().ready()
        self._draw = random.Random(seed)

    def go_on_for(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._draw.choice((self._kill, self._freeze, self._cut, self._cut, self._stall))()
            time.sleep(self._draw.uniform(0.5, 3.0))

    def close(self) -> None:
        self.server.kill()

    def _kill(self) -> None:
        self.server.kill()
        time.sleep(self._draw.uniform(0.0, 2.0))
        self.server = self._start_server().ready()

    def _freeze(self) -> None:
        self.server.send(signal.SIGSTOP)
        time.sleep(self._draw.uniform(0.5, 4.0))
        self.server.send(signal.SIGCONT)

    def _cut(self) -> None:
        self._during(Proxy.cut)

    def _stall(self) -> None:
        self._during(Proxy.stall)

    def _during(self, fault) -> None:
        links = [one.link for one in self._draw.sample(self._robots, self._draw.randint(1, 4))]
        for link in links:
            fault(link)
        time.sleep(self._draw.uniform(0.5, 4.0))
        for link in links:
            link.mend()


def test_eight_robots_survive_faults_apart_from_each_other(checkpoint, tmp_path):
    weights = find_checkpoint(str(checkpoint), "checkpoint").path
    audit = tmp_path / "audit.jsonl"
    router = RouterProcess()
    with ExitStack() as stack:
        stack.callback(router.kill)
        robots: list[RobotProcess] = []
        faults = Faults(robots, lambda: SimServer(weights, router.endpoint, str(audit)), seed=0)
        stack.callback(faults.close)
        for number in range(ROBOTS):
            robots.append(RobotProcess(number, router.endpoint, tmp_path))
            stack.callback(robots[-1].close)
        eventually(lambda: all(one.is_driven for one in robots), STARTED_S)
        faults.go_on_for(SECONDS)
        for robot in robots:
            robot.process.send_signal(signal.SIGTERM)
        for robot in robots:
            assert robot.process.wait(60) == 0, robot.log[-3000:]
        check(robots, audit)


def check(robots: list[RobotProcess], audit) -> None:
    """Every dataset loads, every fallback is explained, and no chunk reached another robot."""
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    answered = {one["session_id"]: one["client_id"] for one in lines if "session_id" in one}
    digests = set()
    for robot in robots:
        dataset = loaded(robot.root)
        assert dataset.num_episodes > 0
        assert len(dataset) == dataset.num_frames
        episodes = provenance(robot.root, dataset)
        rows = [row for episode in episodes for row in episode]
        sessions = {row.session_id for row in rows if row.session_id}
        assert {answered[session] for session in sessions} == {robot.name}
        digests |= {row.digest for row in rows if row.digest}
        explanations = EXPLAINED.findall(robot.log)
        # A robot that waits for the first chunk of an episode is not in trouble.
        assert sum(map(troubles, episodes)) <= len(explanations), robot.log[-3000:]
    assert len(digests) == 1


def troubles(rows: list) -> int:
    """How often an episode's frames went over to fallbacks."""
    _, *later = (is_fallback for is_fallback, _ in groupby(row.is_fallback for row in rows))
    return sum(later)
