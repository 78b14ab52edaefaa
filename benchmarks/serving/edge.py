"""The process of the robots: asks when it is told to, and tells what came of it.

`python -m benchmarks.serving.edge STACK ADDRESS CLIENTS DEVICE` reads one JSON order per line and
answers each with one line. Instants are of the machine's monotonic clock.
"""

import json
import math
import sys
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.serving.scene import Scene, check, film
from benchmarks.serving.stacks import STACKS, Client

FILM = 12
# Before a first reply is awaited: connecting, and choosing a codec.
_WARM_UP = 5
_PAUSE_AFTER_FAILURE_S = 0.01


class Edge:
    """Robots that all use one stack."""

    def __init__(self, stack: str, address: str, clients: int, device: str) -> None:
        kind = STACKS[stack].connect()
        self._connect = lambda: kind(address)
        self._film = film(FILM)
        self._counters = Path("/sys/class/net", device, "statistics")
        self._is_loopback = device == "lo"
        self._clients = [self._connect() for _ in range(clients)]

    @property
    def codec(self) -> str:
        return ", ".join(sorted({getattr(client, "codec", "") for client in self._clients}))

    def warm_up(self) -> None:
        for client in self._clients:
            for number in range(_WARM_UP):
                _ask(client, self._scene(number))

    def round(self, requests: int) -> dict[str, Any]:
        """One robot asks so often; the first two do not count."""
        client = self._clients[0]
        for number in range(2):
            _ask(client, self._scene(number))
        octets, cpu_s = self._octets(), time.process_time()
        seconds = [_ask(client, self._scene(number)) for number in range(requests)]
        return {
            "seconds": seconds,
            "cpu_s": time.process_time() - cpu_s,
            "octets": self._octets() - octets,
        }

    def window(self, start: float, end: float) -> dict[str, Any]:
        """All robots ask without a pause; what was answered between two instants counts."""
        answered: list[list[float]] = [[] for _ in self._clients]
        errors: list[str] = []

        def work(index: int) -> None:
            number = index
            while time.monotonic() < end:
                number += 1
                try:
                    seconds = _ask(self._clients[index], self._scene(number))
                except Exception as error:  # noqa: BLE001 - counted, and shown by the parent
                    errors.append(_text(error))
                    time.sleep(_PAUSE_AFTER_FAILURE_S)
                    continue
                if start <= time.monotonic() < end:
                    answered[index].append(seconds)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(self._clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"answered": answered, "errors": errors}

    def watch(self, ready_file: str, patience_s: float) -> dict[str, Any]:
        """One robot asks on and on, whatever happens: when it was answered, and what went wrong.

        Once `ready_file` holds the instant from which a server was there again, it ends with the
        first answer, or when patience does; then a new client is tried.
        """
        bad: list[tuple[float, str]] = []
        number = 0
        ready = math.inf
        while time.monotonic() < ready + patience_s:
            number += 1
            try:
                _ask(self._clients[0], self._scene(number))
                answered = time.monotonic()
            except Exception as error:  # noqa: BLE001 - what peers raise is part of the result
                bad.append((time.monotonic(), _text(error)))
                time.sleep(_PAUSE_AFTER_FAILURE_S)
                answered = -math.inf
            if Path(ready_file).exists():
                ready = float(Path(ready_file).read_text())
            if answered > ready:
                return {"answered": answered, "bad": bad}
        started = time.monotonic()
        _ask(self._connect(), self._scene(0))
        return {"answered": None, "bad": bad, "new_client_s": time.monotonic() - started}

    def _scene(self, number: int) -> Scene:
        return self._film[number % FILM]

    def _octets(self) -> int:
        """Bytes over the link, both ways; a loopback counts each byte as sent and as received."""
        names = ("tx_bytes",) if self._is_loopback else ("tx_bytes", "rx_bytes")
        return sum(int((self._counters / name).read_text()) for name in names)


def _ask(client: Client, scene: Scene) -> float:
    started = time.perf_counter()
    reply = client.infer(scene)
    seconds = time.perf_counter() - started
    check(scene, reply)
    return seconds


def _text(error: Exception) -> str:
    details = getattr(error, "details", None)
    text = str(details() if callable(details) else error)
    return f"{type(error).__name__}: {' '.join(text.split())[:100]}"


def main() -> None:
    stack, address, clients, device = sys.argv[1:]
    edge = Edge(stack, address, int(clients), device)
    edge.warm_up()
    print(json.dumps({"codec": edge.codec}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        result = getattr(edge, order.pop("do"))(**order)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
