"""A simulated robot at work in a thread, with a keyboard, on a policy server of its own process."""

import os
import pty
import sys
import termios
import threading
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from lerobot.datasets import LeRobotDataset

from lefleet.edge.flags import parse_flags
from lefleet.edge.rollout import run_rollout
from lefleet.recording import read_provenance
from lefleet.robots import LeFleetSim
from lefleet.sim.encode import STATE_NAMES
from tests.client.transport.waiting import eventually
from tests.edge.plant import LONG_S, Child, RouterProcess

SIM = (
    "--robot.type=lefleet_sim",
    "--robot.task=push",
    "--robot.horizon=500",
    "--fps=80",
    "--play_sounds=false",
)
WHERE_IT_IS = "--return_to_initial_position=false"
"""Homing takes 3 s."""
NEAR = 0.06
"""Of its initial pose: one unit is ten centimetres."""


class SimServer(Child):
    """`lefleet serve` with a checkpoint for the simulation, behind a router."""

    def __init__(self, checkpoint: Path, router: str, audit: str = "none") -> None:
        super().__init__(
            "lefleet",
            "serve",
            str(checkpoint),
            "--service_name=sim",
            "--server_name=only",
            f"--zenoh.connect=[{router}]",
            f"--audit={audit}",
        )

    def ready(self) -> "SimServer":
        def is_ready() -> bool:
            return any("event=ready" in line for line in self.said)

        eventually(lambda: self.process.poll() is not None or is_ready(), 120.0)
        assert self.process.poll() is None, "".join(self.said)
        return self


class Service:
    """A router and a server."""

    def __init__(self, checkpoint: Path, folder: Path) -> None:
        self.audit = folder / "audit.jsonl"
        self.router = RouterProcess()
        self.server = SimServer(checkpoint, self.router.endpoint, str(self.audit)).ready()

    @property
    def flags(self) -> tuple[str, ...]:
        return "--inference.type=remote", f"--inference.connect={self.router.endpoint}"

    def close(self) -> None:
        self.server.kill()
        self.router.kill()


class Keyboard:
    """A pseudo-terminal that takes the place of stdin; `attributes` are what it looks like."""

    def __init__(self, monkeypatch: Any) -> None:
        self._hand, self.terminal = pty.openpty()
        self._stdin = os.fdopen(os.dup(self.terminal))
        monkeypatch.setattr(sys, "stdin", self._stdin)

    @property
    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self.terminal)

    def press(self, keys: str) -> None:
        os.write(self._hand, keys.encode())

    def unplug(self) -> None:
        """As when an SSH connection ends."""
        os.close(self._hand)

    def close(self) -> None:
        self._stdin.close()
        os.close(self.terminal)


class Cell:
    """A rollout with these flags, from its first observation to its end.

    with Cell(*service.flags, "--duration=1") as cell:
        cell.until(lambda: cell.robot.extras.steps > 10)
    assert cell.raised is None
    """

    def __init__(self, *flags: str) -> None:
        self.config = parse_flags([*SIM, *flags])
        self.robot = LeFleetSim(self.config.robot, on_command=self._on_command)
        self.shutdown = threading.Event()
        self.dataset: Any = None
        self.raised: BaseException | None = None
        self.poses: list[list[float]] = []
        """At each command."""
        self.last_command: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def __enter__(self) -> "Cell":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.shutdown.set()
        self._thread.join(LONG_S)
        assert not self._thread.is_alive(), "the rollout did not end"
        assert not self.robot.is_connected

    def until(self, is_true: Callable[[], object]) -> None:
        """Return when it is true of a rollout that goes on."""
        eventually(lambda: not self._thread.is_alive() or self._is(is_true), LONG_S)
        assert self._thread.is_alive(), self.raised

    def moves(self, episode: int = 0, steps: int = 20) -> None:
        """Return when the policy has driven for a while in this episode of the scene."""
        self.until(lambda: self._extras[:1] == (episode,) and self._extras[2] >= steps)

    @property
    def is_at_home(self) -> bool:
        """Whether the last command asked for the first pose: on a busy machine the arm may still be
        on its way."""
        pairs = zip(self.poses[0], STATE_NAMES, strict=True)
        return all(abs(first - self.last_command.get(name, inf)) < NEAR for first, name in pairs)

    @property
    def _extras(self) -> tuple[Any, ...]:
        return tuple(self.robot.extras)

    def _is(self, is_true: Callable[[], object]) -> bool:
        return self.robot.is_connected and bool(is_true())

    def _on_command(self, command: dict[str, float], _: float) -> None:
        self.last_command = command
        observation = self.robot._connected.observe()
        self.poses.append([observation[name] for name in STATE_NAMES])

    def _run(self) -> None:
        try:
            self.dataset = run_rollout(self.config, self.shutdown, self.robot)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            self.raised = error


def recording(root: Path) -> list[str]:
    """Flags to record without a pause between episodes."""
    return [
        "--dataset.repo_id=local/rollout_test",
        f"--dataset.root={root}",
        "--dataset.reset_time_s=0",
        "--task=Push the puck.",
    ]


def loaded(root: Path) -> LeRobotDataset:
    return LeRobotDataset("local/rollout_test", root=root)


def provenance(root: Path, dataset: LeRobotDataset) -> list[list[Any]]:
    """Of every episode; there is one row for each frame."""
    rows = [read_provenance(root, episode) for episode in range(dataset.num_episodes)]
    assert sum(map(len, rows)) == dataset.num_frames
    return rows
