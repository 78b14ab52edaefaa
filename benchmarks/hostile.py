"""An honest robot beside each attack, against a control that only uses as much processor time.

`python -m benchmarks.hostile ENDPOINT` is the honest robot's process. To look at few attacks, name
them: `ATTACKS="scan_bombs slow_loris" ROUNDS=5 python -m benchmarks hostile --quick`.
"""

import json
import os
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Section, table
from benchmarks.serving.children import Child, free_port
from benchmarks.serving.links import End, same_host
from benchmarks.workshop import Workshop, python, say
from lefleet_client.remote import RemoteError, RemotePolicy

RATE_HZ = 10.0
WINDOW_S = 1.0
ROUNDS = 10
MOST_SLOWER = 2.0
MOST_GROWTH_MB = 16.0
TIMEOUT_S = 5.0
_START_S = 90.0
_CORE = 0
_SETTLE_S = 0.2
_MB = 1e6


@dataclass
class Cell:
    """The honest robot beside one attack, and beside its control, over all rounds."""

    beside_attack: list[float] = field(default_factory=list)
    beside_control: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    sent: int = 0
    octets: int = 0
    server_share: float = 0.0

    @property
    def slower(self) -> float:
        return _p95(self.beside_attack) / _p95(self.beside_control)

    @property
    def growth_mb(self) -> float:
        """How far the second half of the rounds went above the first."""
        half = len(self.resident_mb) // 2
        return max(self.resident_mb[half:]) - max(self.resident_mb[:half])

    @property
    def is_met(self) -> bool:
        is_steady = self.growth_mb <= MOST_GROWTH_MB
        return self.slower <= MOST_SLOWER and not self.errors and is_steady


def measure(workshop: Workshop) -> Section:
    # Attacks belong to the tests, where they run in a short and in a long form.
    from tests.hostile.attacks import ATTACKS
    from tests.policy.tiny import TOP, act_images

    folder = workshop.folder / "hostile"
    folder.mkdir()
    checkpoint = act_images(folder / "checkpoint", cameras=(TOP,))
    names = os.environ.get("ATTACKS", "").split() if workshop.quick else []
    rounds = int(os.environ.get("ROUNDS", "2")) if workshop.quick else ROUNDS
    cells: dict[str, Cell] = {}
    with same_host() as link:
        for name in names or ATTACKS:
            cells[name] = _beside(name, checkpoint, link.server, folder, rounds)
            say(f"{name}: {cells[name].slower:.2f} times the control's p95")
            for error in sorted(set(cells[name].errors)):
                say(f"  {cells[name].errors.count(error)} times {error}")
    missed = sum(not cell.is_met for cell in cells.values())
    requests = round(RATE_HZ * WINDOW_S * rounds)
    return Section(
        "an honest robot beside attacks at full rate",
        (_table(cells), f"{len(cells) - missed} of {len(cells)} attacks met, {missed} missed."),
        (
            f"Wanted: p95 at most {MOST_SLOWER:g} times the control's, no failed request, and "
            f"memory that grows by at most {MOST_GROWTH_MB:g} MB from the first half of the rounds "
            "to the second.",
            f"`lefleet serve` with a tiny ACT of one camera, a new process for each attack; "
            f"{requests} requests of the honest robot at {RATE_HZ:g} Hz in each column, in rounds "
            f"of {WINDOW_S:g} s, attack and control in turns.",
            "A request counts from the moment when it was due. The attacker is pinned to one core; "
            "in the control the same process uses as much of that core and sends nothing.",
        ),
    )


def _beside(name: str, checkpoint: Path, end: End, folder: Path, rounds: int) -> Cell:
    """All rounds of one attack."""
    cell = Cell()
    with ExitStack() as cleanup:
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        server = cleanup.enter_context(closing(_server(name, checkpoint, endpoint, end, folder)))
        here = folder / f"{name}.log"
        robot = cleanup.enter_context(
            closing(Child(python("-m", "benchmarks.hostile", endpoint), end, here))
        )
        robot.line(_START_S)
        argv = python("-m", "tests.hostile.attacker", str(_START_S + rounds * 30))
        pinned = ("taskset", "-c", str(_CORE), *argv)
        attacker = cleanup.enter_context(closing(Child(pinned, end, here)))
        attacker.tell(json.dumps({"do": "prepare", "name": name, "endpoint": endpoint}))
        attacker.line(_START_S)
        for _ in range(rounds):
            started, cpu_s = time.monotonic(), server.cpu_s()
            done, attack = _round(robot, attacker, {"do": "attack"})
            cell.server_share += (server.cpu_s() - cpu_s) / (time.monotonic() - started) / rounds
            cell.beside_attack += done["seconds"]
            cell.errors += done["errors"]
            cell.sent += attack["sent"]
            cell.octets += attack["octets"]
            cell.shares.append(attack["share"])
            cell.errors += _settle(robot)
            cell.resident_mb.append(_resident_mb(server))
            done, _ = _round(robot, attacker, {"do": "burn", "share": attack["share"]})
            cell.beside_control += done["seconds"]
            cell.errors += done["errors"]
    return cell


def _round(robot: Child, attacker: Child, order: dict[str, object]) -> tuple[Any, Any]:
    """One window: what the robot and the attacker tell of it."""
    attacker.tell(json.dumps({**order, "seconds": WINDOW_S + _SETTLE_S}))
    time.sleep(_SETTLE_S / 2)
    robot.tell("window")
    patience_s = 3 * TIMEOUT_S + WINDOW_S
    return json.loads(robot.line(patience_s)), json.loads(attacker.line(patience_s))


def _settle(robot: Child) -> list[str]:
    """Wait until what the attack left behind is worked off: the control must not pay for it."""
    robot.tell("settle")
    is_settled = json.loads(robot.line(_START_S))["is_settled"]
    return [] if is_settled else [f"slow for {2 * TIMEOUT_S:g} s after the attack"]


def _server(name: str, checkpoint: Path, endpoint: str, end: End, folder: Path) -> Child:
    argv = (
        "-m", "lefleet", "serve", "--json", f"--model.repo_or_path={checkpoint}",
        "--service_name=hostile", f"--zenoh.listen={endpoint}",
        f"--audit={folder}/audit.jsonl",
    )  # fmt: skip
    server = Child(python(*argv), end, folder / f"{name}.log")
    server.line(_START_S)
    return server


def _resident_mb(child: Child) -> float:
    pages = int(Path(f"/proc/{child.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MB


def _p95(seconds: list[float]) -> float:
    return float(np.percentile(seconds, 95))


def _table(cells: dict[str, Cell]) -> str:
    header = (
        "attack", "messages/s", "MB/s", "CPU attacker", "CPU server", "p50", "p95",
        "control p50", "control p95", "p95 ÷ control", "failed", "memory", "growth", "verdict",
    )  # fmt: skip
    return table(header, (_row(name, cell) for name, cell in cells.items()))


def _row(name: str, cell: Cell) -> tuple[str, ...]:
    attacked_s = len(cell.shares) * (WINDOW_S + _SETTLE_S)
    return (
        name,
        f"{cell.sent / attacked_s:.0f}",
        f"{cell.octets / attacked_s / _MB:.1f}",
        f"{np.mean(cell.shares):.2f}",
        f"{cell.server_share:.2f}",
        *(
            f"{np.percentile(seconds, q) * 1e3:.1f} ms"
            for seconds in (cell.beside_attack, cell.beside_control)
            for q in (50, 95)
        ),
        f"{cell.slower:.2f}",
        str(len(cell.errors)),
        f"{cell.resident_mb[-1]:.0f} MB",
        f"{cell.growth_mb:+.1f} MB",
        "met" if cell.is_met else "**MISSED**",
    )


class Robot:
    """The honest robot; every request is the same."""

    def __init__(self, endpoint: str) -> None:
        self._policy = RemotePolicy(endpoint, "hostile", client_id="honest", timeout_s=TIMEOUT_S)
        contract = self._policy.ack.capabilities.contract
        vectors = {key: np.zeros(len(names)) for key, names in contract.vectors.items()}
        images = {key: np.zeros(shape, np.uint8) for key, shape in contract.cameras.items()}
        self._seen: dict[str, Any] = vectors | images
        self._usual_s = float(np.median([self._ask() for _ in range(20)]))

    def settle(self) -> dict[str, Any]:
        """Ask until answers take as long as before any attack, but not for ever."""
        deadline = time.monotonic() + 2 * TIMEOUT_S
        quick = 0
        while quick < 5 and time.monotonic() < deadline:
            try:
                quick = quick + 1 if self._ask() < 2 * self._usual_s else 0
            except RemoteError:
                quick = 0
        return {"is_settled": quick == 5}

    def window(self) -> dict[str, Any]:
        """Ask at a fixed rate; a request counts from the moment when it was due."""
        started = time.monotonic()
        seconds: list[float] = []
        errors: list[str] = []
        for number in range(round(RATE_HZ * WINDOW_S)):
            due = started + number / RATE_HZ
            if time.monotonic() > started + WINDOW_S + TIMEOUT_S:
                errors.append("was never sent")
                continue
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                self._ask()
            except Exception as error:  # noqa: BLE001 - every failure counts, and is shown
                errors.append(f"{type(error).__name__}: {error}"[:200])
            seconds.append(time.monotonic() - due)
        return {"seconds": seconds, "errors": errors}

    def _ask(self) -> float:
        started = time.monotonic()
        self._policy.infer(self._seen)
        return time.monotonic() - started


def main() -> None:
    robot = Robot(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(getattr(robot, line.strip())()), flush=True)


if __name__ == "__main__":
    main()
