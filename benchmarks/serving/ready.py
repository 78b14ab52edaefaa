"""What every server process takes and says."""

import argparse
import time
from typing import NamedTuple

from benchmarks.serving.scene import StubPolicy


class Options(NamedTuple):
    """Where to listen, and what to serve."""

    host: str
    port: int
    policy: StubPolicy


def options() -> Options:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True, help="host:port to listen on")
    parser.add_argument("--policy-ms", type=float, default=0.0)
    given = parser.parse_args()
    host, _, port = given.address.rpartition(":")
    return Options(host, int(port), StubPolicy(given.policy_ms / 1e3))


def say_ready() -> None:
    """Clients can come now. The clock is the machine's, so the parent can compare it."""
    print(f"ready {time.monotonic():.6f}", flush=True)
