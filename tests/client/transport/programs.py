"""Whole programs that use the client, run to their end."""

import subprocess
import sys
import threading

from tests.client.transport.waiting import LONG_S

LOOPS = 3
"""So many side by side: on two cores the end of one program is then interrupted anywhere."""


def python(code: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-c", code]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG_S * 6, check=False)


def run_in_loops(command: list[str], runs: int) -> set[tuple[int, str]]:
    """Every exit code with the last line of stderr that occurred in so many runs."""
    found: set[tuple[int, str]] = set()

    def loop() -> None:
        for _ in range(-(-runs // LOOPS)):
            child = run(command)
            found.add((child.returncode, child.stderr[-200:] if child.returncode else ""))

    threads = [threading.Thread(target=loop) for _ in range(LOOPS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
