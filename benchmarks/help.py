"""How long after Enter do the help and the short commands answer, against a bare interpreter?"""

import os
import statistics
import subprocess
import time
from pathlib import Path

from benchmarks.report import Section, table
from benchmarks.workshop import Workshop, python

TARGET = 15
BARE = "python -c pass"
COMMANDS = {
    BARE: python("-c", "pass"),
    "lefleet --help": python("-m", "lefleet", "--help"),
    "lefleet evla": python("-m", "lefleet", "evla"),
    "lefleet train --help": python("-m", "lefleet", "train", "--help"),
    "lefleet fleet --help": python("-m", "lefleet", "fleet", "--help"),
    "lefleet status": python("-m", "lefleet", "status"),
}


def measure(workshop: Workshop) -> Section:
    rounds = 2 if workshop.quick else 15
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, argv in COMMANDS.items():
            times[name].append(_seconds(argv, workshop.folder))
    bare = times[BARE]
    rows = []
    for name, taken in times.items():
        ratio = statistics.median(one / base for one, base in zip(taken, bare, strict=True))
        rows.append((f"`{name}`", f"{statistics.median(taken):.3f} s", f"{ratio:.1f}"))
    return Section(
        "Time to the first answer",
        (table(("command", "time", "times a bare interpreter"), rows),),
        (
            f"Medians of {rounds} rounds, in turns; a ratio is the median of the rounds' own.",
            f"The target is that `lefleet --help` takes at most {TARGET} times as long as a bare",
            "interpreter. `lefleet status` looks into a folder without runs.",
        ),
    )


def _seconds(argv: tuple[str, ...], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(argv, cwd=folder, env=os.environ, capture_output=True, check=False)
    return time.perf_counter() - began
