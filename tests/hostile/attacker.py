"""The process that attacks when told to.

`python -m tests.hostile.attacker DEADLINE_S` reads one JSON order per line and answers each with
one line. It ends with its input, and in any case after DEADLINE_S seconds, whatever it is doing.

    {"do": "prepare", "name": ..., "endpoint": ...}  get ready for an attack on a server
    {"do": "attack", "seconds": 1}                   repeat its step for so long
    {"do": "burn", "seconds": 1, "share": 0.5}       use so much of a core, and send nothing
"""

import json
import os
import sys
import threading
import time
from typing import Any

import zenoh

from tests.hostile.attacks import ATTACKS, Step
from tests.hostile.bus import Bus

_SLICE_S = 0.01


class Attacker:
    """One attack at a time."""

    _bus: Bus
    _step: Step

    def prepare(self, name: str, endpoint: str) -> dict[str, Any]:
        """Get ready for an attack; what was kept for the last one, such as tokens, vanishes."""
        if hasattr(self, "_bus"):
            self._bus.session.close()
        self._bus = Bus(endpoint)
        self._step = ATTACKS[name].prepare(self._bus)
        return {"ready": name}

    def attack(self, seconds: float) -> dict[str, Any]:
        """Repeat the step at full rate."""
        bus, failures = self._bus, 0
        before = bus.sent, bus.octets, time.process_time()
        started = time.monotonic()
        while time.monotonic() < started + seconds:
            try:
                self._step()
            except zenoh.ZError:
                # The server closed the link; Zenoh opens it again.
                failures += 1
        wall_s = time.monotonic() - started
        return {
            "sent": bus.sent - before[0],
            "octets": bus.octets - before[1],
            "failures": failures,
            "share": min(1.0, (time.process_time() - before[2]) / wall_s),
        }

    def burn(self, seconds: float, share: float) -> dict[str, Any]:
        """Use this share of a core for as long, slice by slice, and send nothing."""
        started, used = time.monotonic(), time.process_time()
        while (passed := time.monotonic() - started) < seconds:
            if time.process_time() - used >= share * passed:
                time.sleep(_SLICE_S)
        return {"share": (time.process_time() - used) / passed}


def main() -> None:
    last = threading.Timer(float(sys.argv[1]), os._exit, (3,))
    last.daemon = True
    last.start()
    attacker = Attacker()
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(getattr(attacker, order.pop("do"))(**order)), flush=True)
    # Zenoh would still send what waits; nobody wants it.
    os._exit(0)


if __name__ == "__main__":
    main()
