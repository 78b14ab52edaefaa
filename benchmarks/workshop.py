"""Where a benchmark works: stages in a temporary folder, and commands with a stopwatch."""

import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import STDOUT, TimeoutExpired
from typing import Any

import msgspec

from lefleet import run_stage
from lefleet.constitution import Constitution, Grants, Rules, installed
from lefleet.constitution.schema import CommandRule
from lefleet.process import launch, stop
from lefleet.records import Request, encode

REPOSITORY = Path(__file__).parents[1]
LONGEST_COMMAND_S = 900.0
EASY3 = ("push", "pick-place", "door-open")
_ALL = ("*",)
ANY_PROGRAM = Rules(
    constitution=Constitution(
        version=1,
        commands={"*": CommandRule(arguments={"*": None}, positional=_ALL)},
        environments=_ALL,
        datasets=_ALL,
        checkpoints=_ALL,
        config_paths=_ALL,
        plugins=_ALL,
        variables=_ALL,
    ),
    grants=Grants(folders=("/",)),
)
"""Benchmarks start programs of their own, which no constitution lists."""


class Workshop:
    """A folder for one run of the benchmarks. Equal stages are run once and shared."""

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self.folder = folder
        self.quick = quick

    def stage(self, request: Request) -> tuple[Path, Any]:
        """Folder and record of a stage."""
        body = encode(request)
        kind = msgspec.json.decode(body)["kind"]
        folder = self.folder / "stages" / f"{kind}_{hashlib.sha256(body).hexdigest()[:12]}"
        started = time.perf_counter()
        record = run_stage(request, folder)
        say(f"{folder.name} is done after {time.perf_counter() - started:.0f} s")
        return folder, record

    def command(
        self, argv: Sequence[str], name: str, environment: Mapping[str, str] | None = None
    ) -> float:
        """Seconds that the whole command takes; RuntimeError when it fails or never ends."""
        path = self.folder / f"{name}.log"
        with path.open("wb") as log:
            started = time.perf_counter()
            with installed(ANY_PROGRAM):
                child = launch(
                    argv,
                    stdout=log,
                    stderr=STDOUT,
                    cwd=REPOSITORY,
                    environment={"HF_HUB_OFFLINE": "1", **(environment or {})},
                )
            try:
                code = child.wait(LONGEST_COMMAND_S)
            except TimeoutExpired as error:
                raise RuntimeError(f"{name} took over {LONGEST_COMMAND_S:.0f} s") from error
            finally:
                stop(child)
        seconds = time.perf_counter() - started
        if code:
            raise RuntimeError(f"{name} ended with code {code}:\n{path.read_text()[-2000:]}")
        say(f"{name} took {seconds:.1f} s")
        return seconds


def python(*arguments: str) -> tuple[str, ...]:
    """A command of this Python."""
    return (sys.executable, *arguments)


def say(line: str) -> None:
    """One line of progress."""
    print(f"  {line}", file=sys.__stderr__, flush=True)
