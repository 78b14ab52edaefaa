"""How long does a stage take to start, forked and as a new program; and the whole demo?"""

import json
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Section, table
from benchmarks.serving.targets import Target, target_table
from benchmarks.workshop import Workshop, python
from lefleet.loop.preload import Preload
from lefleet.process import child_environment
from lefleet.records import (
    EvaluateRequest,
    ExpertDemos,
    Request,
    RunConfig,
    Rung,
    TrainRequest,
    encode,
)
from lefleet.stages.run import start

DEMO_LIMIT_S = 180.0
TASKS = ("push",)


class Startup(NamedTuple):
    """Seconds of the same stage, started in two ways."""

    stage: str
    as_program: float
    as_fork: float
    is_equal: bool
    """Whether both computed the same, bit for bit."""


def measure(workshop: Workshop) -> Section:
    demos, _ = workshop.stage(ExpertDemos(tasks=TASKS, episodes_per_task=2))
    trained, _ = workshop.stage(TrainRequest(dataset=str(demos), tasks=TASKS, steps=20))
    requests: dict[str, Request] = {
        "train, 20 steps": TrainRequest(dataset=str(demos), tasks=TASKS, steps=20),
        "evaluate, 2 episodes": EvaluateRequest(
            checkpoint=str(trained), tasks=TASKS, episodes_per_task=2, videos_per_task=0, workers=1
        ),
    }
    found = [_startup(workshop, name, request) for name, request in requests.items()]
    cells = (
        (
            one.stage,
            f"{one.as_program:.1f} s",
            f"{one.as_fork:.1f} s",
            f"{one.as_program / one.as_fork:.1f}",
            "yes" if one.is_equal else "**NO**",
        )
        for one in found
    )
    tables = [table(("stage", "new program", "fork", "ratio", "same result"), cells)]
    if not workshop.quick:
        workdir = workshop.folder / "startup_demo"
        argv = python("-m", "lefleet", "demo", "--workdir", str(workdir))
        seconds = workshop.command(argv, "demo")
        tables.append(target_table([Target("lefleet demo", DEMO_LIMIT_S, seconds, " s")]))
    return Section(
        "stages forked from a process that has imported LeRobot, and the whole demo",
        tuple(tables),
        (
            "A new program imports LeRobot, and so does its worker or its training. A fork is made",
            "by a process that has imported it, as a run's controller does while its first stage",
            "runs. The same result: equal digests of the checkpoint, equal lines of episodes.",
            "A run is detached, so its own processes are among the other processes of the",
            "machine's line.",
        ),
    )


def _startup(workshop: Workshop, name: str, request: Request) -> Startup:
    base = workshop.folder / "startup" / name.partition(",")[0]
    folders = [base / way for way in ("program", "fork")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "request.json").write_bytes(encode(request))
    as_program, as_fork = folders
    first = workshop.command(python("-m", "lefleet", "stage", "exec", str(as_program)), "program")
    workshop.command(python("-m", "benchmarks.startup", str(as_fork)), "fork")
    seconds = json.loads((as_fork / "seconds.json").read_text())
    return Startup(name, first, seconds, _result(as_program) == _result(as_fork))


def _result(folder: Path) -> object:
    episodes = folder / "episodes.jsonl"
    if episodes.exists():
        return episodes.read_text()
    return json.loads((folder / "record.json").read_text())["digest"]


def fork_one(folder: Path) -> None:
    """Import as a controller does, then fork the stage in `folder` and write how long it took."""
    os.environ.update(child_environment())
    preload = Preload(RunConfig(name="startup", ladder=(Rung(name="small"),)), may_fork=True)
    while preload.import_next():
        pass
    started = time.perf_counter()
    code = start(folder, detached=True).wait()
    seconds = time.perf_counter() - started
    (folder / "seconds.json").write_text(json.dumps(seconds))
    sys.exit(code)


if __name__ == "__main__":
    fork_one(Path(sys.argv[1]))
