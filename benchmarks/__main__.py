"""`python -m benchmarks`: run some or all, print their tables, keep them in RESULTS.md."""

import importlib
import sys
import tempfile
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro

from benchmarks.report import RESULTS, Machine, render, rewrite
from benchmarks.workshop import Workshop, say

Name = Literal[
    "data_path",
    "images",
    "cameras",
    "evaluation",
    "improvement",
    "proposer",
    "tasks",
    "startup",
    "overhead",
    "ledger",
    "dashboard",
    "decisions",
    "serving",
    "recovery",
    "cluster",
    "clients",
    "hostile",
    "latency",
    "control",
    "help",
]
ORDER: tuple[Name, ...] = get_args(Name)


def run(
    names: Annotated[tuple[Name, ...], tyro.conf.Positional] = (),
    /,
    quick: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    folder: Path | None = None,
) -> None:
    """Measured claims.

    Args:
        names: Benchmarks to run. None: all.
        quick: Only check that they work; RESULTS.md stays as it is.
        folder: Where stages work. It is kept, so that an interrupted benchmark resumes there.
            None: a temporary one.
    """
    with (
        tempfile.TemporaryDirectory(prefix="lefleet-benchmarks-")
        if folder is None
        else nullcontext(folder)
    ) as where:
        Path(where).mkdir(parents=True, exist_ok=True)
        workshop = Workshop(Path(where), quick=quick)
        for name in [name for name in ORDER if name in (names or ORDER)]:
            say(f"{name} ...")
            machine = Machine()
            module = importlib.import_module(f"benchmarks.{name}")
            # Libraries chatter on stderr; what they say is for whoever looks for a mistake.
            with (workshop.folder / "chatter.log").open("a") as log, redirect_stderr(log):
                section = module.measure(workshop)
            text = render(name, section, machine.describe())
            print(text, flush=True)
            if quick:
                say("this was a quick run: its figures mean nothing")
            else:
                before = RESULTS.read_text() if RESULTS.exists() else ""
                RESULTS.write_text(rewrite(before, {name: text}, ORDER))


if __name__ == "__main__":
    sys.exit(tyro.cli(run, prog="python -m benchmarks"))
