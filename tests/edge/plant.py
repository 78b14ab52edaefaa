"""Real processes around one arm: a router, policy servers, and a rollout of LeRobot in a thread."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lerobot.rollout.configs import RolloutConfig
from lerobot.rollout.strategies.base import BaseStrategy

from lefleet.constitution import installed
from lefleet.edge.config import RemoteInferenceConfig
from lefleet.edge.context import build_context
from lefleet_client.remote import discover_robots
from lefleet_client.stream import Mode
from lefleet_client.transport import ZenohSettings, ZenohTransport
from lerobot_policy_lefleet import LefleetConfig
from tests.client.transport.networks import FREE_PORT
from tests.client.transport.waiting import eventually
from tests.constitution.cases import rules
from tests.edge.arm import FPS, INITIAL, PACKAGE, Arm, ArmConfig

ROOT = Path(__file__).parents[2]
STARTED_S = 90.0
"""A server imports torch and LeRobot first."""
LONG_S = 30.0
TORN_DOWN_S = 20.0
"""Homing alone takes 3 s."""
_LONGEST_GAP_S = 1.0
"""Between two commands, on a busy machine; every outage here lasts longer."""


ARM_RULES = rules(robots={"simulated": ["chaos_arm"]})
ROOM = {"execute_steps": FPS, "buffer_time_s": 0.4, "max_action_age_s": 3.0}
"""Settings with which a request may take long, on a busy machine, before a tick is missed."""


class Child:
    """A process of this test; `said` are the lines of its stderr."""

    def __init__(self, *argv: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *argv],
            cwd=ROOT,
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """As kill -9 does; a process that ended is fine."""
        self.process.kill()
        self.ended()

    def ended(self) -> int:
        code = self.process.wait(LONG_S)
        self._reader.join(LONG_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        return code

    def _read(self) -> None:
        for line in self.process.stderr:
            self.said.append(line)


class Server(Child):
    """`lefleet serve` with a stamped checkpoint, behind a router."""

    def __init__(
        self, checkpoint: Path | str, router: str, name: str = "only", **variables: str
    ) -> None:
        super().__init__(
            "lefleet",
            "serve",
            f"--model.repo_or_path={checkpoint}",
            f"--model.discover_packages=[{PACKAGE}]",
            "--service_name=test",
            f"--server_name={name}",
            f"--zenoh.connect=[{router}]",
            "--audit=none",
            **variables,
        )

    def ready(self) -> "Server":
        eventually(lambda: self.process.poll() is not None or self._says("event=ready"), STARTED_S)
        assert self.process.poll() is None, "".join(self.said)
        return self

    def _says(self, text: str) -> bool:
        return any(text in line for line in self.said)


class RouterProcess(Child):
    """A Zenoh router; started again, it listens where the first one did."""

    def __init__(self, endpoint: str = FREE_PORT) -> None:
        super().__init__("tests.edge.router", endpoint)
        self.endpoint = self.process.stdout.readline().strip()
        assert self.endpoint.startswith("tcp/127.0.0.1:"), "".join(self.said)


class Rollout:
    """LeRobot's base strategy drives the arm until the test leaves the block.

        with Rollout(router.endpoint) as rollout:
            rollout.executes(25)
            server.kill()
            rollout.becomes(Mode.RECONNECTING)

    Leaving it checks what holds in every scenario: nothing was raised into the strategy, every
    command kept the arm's rules, no tick was missed, and the arm is disconnected.
    """

    def __init__(self, endpoint: str, *, homing: bool = False, **inference: Any) -> None:
        self.arm = Arm()
        self.seen = self.arm.judge
        self.shutdown = threading.Event()
        settings = {
            "connect": endpoint,
            "service": "test",
            "client_id": "arm",
            "execute_steps": FPS // 2,
            "max_action_age_s": 1.0,
            "degraded_after_s": 0.3,
            "request_timeout_s": 1.0,
            "handshake_timeout_s": 1.0,
        }
        self.config = RolloutConfig(
            robot=ArmConfig(),
            policy=LefleetConfig(),
            inference=RemoteInferenceConfig(**settings | inference),
            fps=FPS,
            task="reach",
            return_to_initial_position=homing,
        )
        self.raised: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def __enter__(self) -> "Rollout":
        with installed(ARM_RULES):
            self._context = build_context(self.config, self.shutdown, self.arm)
        self.engine = self._context.policy.inference
        self.seen.engine = self.engine
        self.seen.max_age_s = self.config.inference.max_action_age_s
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown.set()
        self._thread.join(TORN_DOWN_S)
        if kind is not None:
            return
        assert not self._thread.is_alive(), "the strategy did not end"
        assert not self.raised, self.raised
        assert not self.seen.faults, f"{len(self.seen.faults)} faults: {self.seen.faults[:5]}"
        assert len(self.seen.marks) <= 1, self.seen.marks
        assert len(self.seen.digests) <= 1, self.seen.digests
        assert self.seen.longest_gap_s < _LONGEST_GAP_S + self.arm.longest_block_s
        assert self.arm.was_disconnected
        assert not {"edge worker", "edge watch"} & {one.name for one in threading.enumerate()}
        if self.config.return_to_initial_position:
            assert self.seen.homing
            assert all(abs(self.arm.pose[name] - INITIAL[name]) < 1e-4 for name in INITIAL)

    def _run(self) -> None:
        strategy = BaseStrategy(self.config.strategy)
        try:
            strategy.setup(self._context)
            strategy.run(self._context)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            self.raised.append(error)
        finally:
            strategy.teardown(self._context)

    @property
    def mode(self) -> Mode:
        return self.engine.status.state.mode

    @property
    def reason(self) -> str:
        return self.engine.status.state.reason

    @property
    def reconnects(self) -> int:
        return self.engine.status.state.reconnects

    def becomes(self, *modes: Mode, timeout_s: float = LONG_S) -> None:
        self._wait(lambda: self.mode in modes, timeout_s)

    def executes(self, count: int, timeout_s: float = LONG_S) -> None:
        """Return when so many more actions of the policy have reached the arm."""
        goal = self.seen.executed + count
        self._wait(lambda: self.seen.executed >= goal, timeout_s)

    def falls_back(self, count: int) -> None:
        """Return when so many more fallbacks have reached the arm."""
        goal = self.seen.fallbacks + count
        self._wait(lambda: self.seen.fallbacks >= goal, LONG_S)

    def ticks(self, count: int) -> None:
        """Return when so many more commands of any kind have reached the arm."""
        goal = self.seen.executed + self.seen.fallbacks + count
        self._wait(lambda: self.seen.executed + self.seen.fallbacks >= goal, LONG_S + count / FPS)

    def resumes(self, timeout_s: float = LONG_S) -> None:
        """Return when the policy drives again, for longer than a chunk."""
        self.becomes(Mode.STREAMING, timeout_s=timeout_s)
        self.executes(FPS, timeout_s)

    def gives_up(self, timeout_s: float = LONG_S) -> str:
        """Return when the robot has given up and told the strategy to end; the reason."""
        self._wait(self.shutdown.is_set, timeout_s)
        assert self.engine.failed
        assert self.mode is Mode.DEAD
        return self.reason

    def _wait(self, is_true: Callable[[], object], timeout_s: float) -> None:
        eventually(lambda: is_true() or not self._thread.is_alive(), timeout_s)
        assert not self.raised, self.raised
        assert is_true(), f"the strategy ended: {self.mode.value} {self.reason}"


class Operator:
    """Watches robots from beside the router."""

    def __init__(self, router: str) -> None:
        self._node = ZenohTransport.open(ZenohSettings(connect=(router,)))

    def __enter__(self) -> "Operator":
        return self

    def __exit__(self, *_: object) -> None:
        self._node.close()

    def sees(self, state: str) -> None:
        """Return when the arm reports this state."""
        eventually(lambda: state in self._states(), LONG_S)

    def _states(self) -> list[str]:
        found = discover_robots(self._node, timeout_s=1.0)
        return [one.state for one in found.robots if one.client_id == "arm"]
