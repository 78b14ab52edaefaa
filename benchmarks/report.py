"""Sections of RESULTS.md: what was measured, on which machine, in a table."""

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Self

RESULTS = Path(__file__).parent / "RESULTS.md"

_HEAD = """\
# Results

The last run of every benchmark. `make bench` runs them all; the command in a section runs that
one and replaces only its section. Ratios are taken within one run: compare those, not the figures
of two machines.
"""


class Section(NamedTuple):
    """What one benchmark found."""

    title: str
    tables: tuple[str, ...]
    remarks: tuple[str, ...]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers and stand right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def render(name: str, section: Section, machine: str) -> str:
    """The Markdown of one section."""
    parts = [
        f"## {name}: {section.title}",
        f"`python -m benchmarks {name}`",
        machine,
        *section.tables,
        " ".join(section.remarks),
    ]
    return "\n\n".join(parts) + "\n"


def rewrite(text: str, sections: Mapping[str, str], order: Sequence[str]) -> str:
    """`text` of RESULTS.md with `sections` put in place of those of the same name."""
    found = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    kept = {part.removeprefix("## ").partition(":")[0]: part for part in found}
    every = {**kept, **sections}
    return "\n".join([_HEAD, *(every[name].strip() + "\n" for name in order if name in every)])


class Machine:
    """This machine, and how much of it other processes used since construction."""

    def __init__(self) -> None:
        self._before = _Usage.now()

    def describe(self) -> str:
        """One line for a section."""
        passed = _Usage.now().since(self._before)
        others = max(0.0, passed.busy_s - passed.ours_s) / max(passed.wall_s, 1e-9)
        cores = len(os.sched_getaffinity(0))
        return (
            f"Machine: {cores} cores of {_cpu_model()}, {_memory_gb():.0f} GB of memory, "
            f"Python {platform.python_version()}, LeRobot {version('lerobot')}, "
            f"mujoco {version('mujoco')}. "
            f"Other processes used {others:.2f} cores on average meanwhile."
        )


class _Usage(NamedTuple):
    wall_s: float
    busy_s: float
    """Processor seconds of everything on this machine."""
    ours_s: float
    """Processor seconds of this process and its ended children."""

    @classmethod
    def now(cls) -> Self:
        ours = os.times()
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        idle, waiting = ticks[3:5]
        busy_s = (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")
        return cls(ours.elapsed, busy_s, sum(ours[:4]))

    def since(self, before: "_Usage") -> "_Usage":
        return _Usage(*(now - then for now, then in zip(self, before, strict=True)))


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
