"""What a control loop pays for a remote policy: `notify` and `next_action`, tick by tick.

`python -m benchmarks.control ADDRESS TICKS` is the robot's process: it runs so many ticks for each
line that it reads, and tells how long they took.
"""

import json
import sys
import time
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

from benchmarks.report import Section, table
from benchmarks.serving.children import Child, Server
from benchmarks.serving.lefleet_server import CONTRACT
from benchmarks.serving.links import same_host
from benchmarks.serving.scene import CAMERAS, IMAGE_KEY, STATE_KEY, STEPS, TASK, Scene, film
from benchmarks.serving.stacks import OURS
from benchmarks.serving.targets import Target, target_table
from benchmarks.workshop import Workshop, python, say
from lefleet_client.remote import RemotePolicy
from lefleet_client.stream import ActionStream, StreamSettings

RATE_HZ = 1000.0
TICKS = 50_000
QUICK_TICKS = 2_000
MOST_US = 100.0
FILM = 12
_START_S = 90.0
_OUTAGE_S = 3600.0


def measure(workshop: Workshop) -> Section:
    folder = workshop.folder / "control"
    folder.mkdir()
    ticks = QUICK_TICKS if workshop.quick else TICKS
    with same_host() as link, ExitStack() as cleanup:
        server = cleanup.enter_context(closing(Server(OURS, link.server, folder)))
        server.wait_ready()
        argv = python("-m", "benchmarks.control", server.address, str(ticks))
        robot = cleanup.enter_context(closing(Child(argv, link.robots, folder / "robot.log")))
        robot.line(_START_S)
        streaming = _ticks(robot, ticks)
        say("the server is killed")
        robot.tell("go")
        time.sleep(ticks / RATE_HZ / 10)
        server.kill()
        outage = json.loads(robot.line(_patience_s(ticks)))
    rows = {"streaming": streaming, "through a total outage": outage}
    return Section(
        f"what `notify` and `next_action` take of a control loop, {2 * ticks:,} ticks at "
        f"{RATE_HZ:g} Hz",
        (
            table(
                (
                    "",
                    "ticks",
                    "p50",
                    "p99",
                    "p99.9",
                    "max",
                    "woken late, p99",
                    "requests",
                    "fallback ticks",
                    "state",
                ),
                (_row(name, found) for name, found in rows.items()),
            ),
            target_table(
                Target(f"p99, {name}", MOST_US, found["p99"], " µs") for name, found in rows.items()
            ),
        ),
        (
            "The robot sends two cameras of 480p and fourteen joints to a real server, over Zenoh",
            "on the same host; the server's policy computes nothing. A chunk of 50 steps lasts",
            f"{STEPS / RATE_HZ * 1000:g} ms, so requests follow each other far faster than on a",
            "robot, and the worker that encodes and sends competes for Python's lock in the same",
            "process. In the second row the server is killed after a tenth of the ticks. A tick's",
            "time is that of the two calls. How late the loop was woken is another column: it is",
            "the operating system's share, and that of Python's lock.",
        ),
    )


def _ticks(robot: Child, ticks: int) -> dict[str, Any]:
    robot.tell("go")
    found: dict[str, Any] = json.loads(robot.line(_patience_s(ticks)))
    return found


def _patience_s(ticks: int) -> float:
    return 30 + 3 * ticks / RATE_HZ


def _row(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{found['ticks']:,}",
        *(f"{found[key]:.0f} µs" for key in ("p50", "p99", "p999", "max", "late")),
        str(found["requests"]),
        f"{found['fallbacks']:,}",
        found["state"],
    )


class Robot:
    """A control loop with a film instead of cameras."""

    def __init__(self, address: str) -> None:
        policy = RemotePolicy(f"tcp/{address}", "stub", task=TASK, insecure=True)
        settings = StreamSettings(fps=RATE_HZ, max_offline_s=_OUTAGE_S)
        self._seen = [_observation(scene) for scene in film(FILM)]
        self._stream = ActionStream(policy, settings, action_names=CONTRACT.action_names)
        self._requests: set[int] = set()
        self._stream.start()
        self._stream.resume()

    def run(self, ticks: int) -> dict[str, Any]:
        stream, seen = self._stream, self._seen
        before = stream.status()
        requests: set[int] = set()
        took_ns, late_ns = np.zeros((2, ticks), np.int64)
        due_s = time.perf_counter()
        for tick in range(ticks):
            due_s += 1 / RATE_HZ
            if (left_s := due_s - time.perf_counter()) > 0:
                time.sleep(left_s)
            observation = seen[tick // 33 % FILM]
            began_ns = time.perf_counter_ns()
            stream.notify(observation)
            stream.next_action()
            took_ns[tick] = time.perf_counter_ns() - began_ns
            late_ns[tick] = began_ns - due_s * 1e9
            if (origin := stream.executed.origin) is not None:
                requests.add(origin.seq_id)
        after = stream.status()
        p50, p99, p999, most = np.percentile(took_ns / 1e3, (50, 99, 99.9, 100))
        return {
            "ticks": ticks,
            "p50": p50,
            "p99": p99,
            "p999": p999,
            "max": most,
            "late": np.percentile(late_ns / 1e3, 99),
            "requests": len(requests),
            "fallbacks": after.fallbacks - before.fallbacks,
            "state": after.state.mode.value,
        }

    def close(self) -> None:
        self._stream.stop()


def _observation(scene: Scene) -> dict[str, Any]:
    images = {IMAGE_KEY.format(camera): scene.images[camera] for camera in CAMERAS}
    return {STATE_KEY: scene.state, **images}


def main() -> None:
    address, ticks = sys.argv[1:]
    robot = Robot(address)
    robot.run(int(RATE_HZ))
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(robot.run(int(ticks))), flush=True)
    robot.close()


if __name__ == "__main__":
    main()
