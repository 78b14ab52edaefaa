"""How much of a run's wall time is LeFleet's own, beside simulation, training and LeRobot?"""

import shutil
import time
from pathlib import Path
from typing import NamedTuple

import yaml

from benchmarks.report import Section, table
from benchmarks.workshop import Workshop, python
from lefleet.ledger import AttemptRow, open_ledger
from lefleet.loop.requests import stage_folder
from lefleet.stages.folder import RECORD

DEMO = Path(__file__).parents[1] / "configs" / "demo.yaml"
TARGET = 0.02


class Share(NamedTuple):
    """Seconds of one run."""

    wall: float
    work: float
    """Stages, without the one import of LeRobot."""
    between: float
    """No stage was running."""
    inside: float
    """Stages run again with nothing left to do but LeFleet's own work."""


def measure(workshop: Workshop) -> Section:
    runs = {"tiny": _tiny()} if workshop.quick else {"demo": _demo(), "longer": _longer()}
    argv = python("-c", "import lerobot.scripts.lerobot_train")
    workshop.command(argv, "import")
    imports = min(workshop.command(argv, "import") for _ in range(2))
    rows = []
    for name, config in runs.items():
        share = _share(workshop, name, config, imports)
        own = share.between + share.inside
        rows.append(
            (
                name,
                f"{share.wall:.0f} s",
                f"{share.work:.0f} s",
                f"{share.between:.2f} s",
                f"{share.inside:.2f} s",
                f"{own / share.work:.1%}",
            )
        )
    header = (
        "run",
        "wall",
        "stages without imports",
        "between stages",
        "inside stages",
        "LeFleet's share",
    )
    return Section(
        "LeFleet's own share of the wall time",
        (table(header, rows),),
        (
            "`demo` is `lefleet demo`; `longer` has two cycles of 10,000 training steps and 100",
            "episodes per task in each evaluation.",
            "Own time between stages is wall time in which no stage was running. Own time inside",
            "is that of the same stage run again with its work done (checkpoint, episodes) and the",
            "record missing: start, checks, digests, intervals, commit; for collect, whose dataset",
            "LeRobot would write again, with the record present.",
            f"One import of LeRobot takes {imports:.1f} s here and is taken off once: the first",
            "stage imports it, the others are forks of a controller that has.",
            f"The target is {TARGET:.0%} of the stages' time. A run is detached, so its own",
            "processes are among the other processes of the machine's line.",
        ),
    )


def _share(workshop: Workshop, name: str, config: dict[str, object], imports: float) -> Share:
    workdir = workshop.folder / "overhead" / name
    workdir.mkdir(parents=True)
    file = workdir / "config.yaml"
    file.write_text(yaml.safe_dump({**config, "name": name}))
    argv = python("-m", "lefleet", "run", "-c", str(file), "--workdir", str(workdir))
    workshop.command(argv, f"run_{name}")
    ledger = open_ledger(workdir)
    row = next(row for row in ledger.runs() if row.id == name)
    attempts = ledger.attempts(name)
    ledger.close()
    stages = sum(_seconds(attempt) for attempt in attempts)
    wall = max(attempt.ended_at or 0.0 for attempt in attempts) - row.created_at
    inside = sum(_again(workshop, workdir / name, attempt) for attempt in attempts)
    return Share(wall, stages - imports, wall - stages, inside)


def _again(workshop: Workshop, run: Path, attempt: AttemptRow) -> float:
    """Seconds of LeFleet's own part of a stage."""
    folder = stage_folder(run, attempt.cycle, attempt.stage)
    if attempt.stage != "collect":
        shutil.move(folder / RECORD, folder.parent / f"{attempt.stage}.json")
    name = f"again_{run.name}_{attempt.cycle}_{attempt.stage}"
    started = time.perf_counter()
    workshop.command(python("-m", "lefleet", "stage", "exec", str(folder)), name)
    return time.perf_counter() - started


def _seconds(attempt: AttemptRow) -> float:
    return (attempt.ended_at or attempt.started_at) - attempt.started_at


def _demo() -> dict[str, object]:
    config: dict[str, object] = yaml.safe_load(DEMO.read_text())
    return config


def _longer() -> dict[str, object]:
    return _demo() | {
        "ladder": [{"name": "small-act", "steps": 10_000}],
        "evaluate": {"episodes_per_task": 100},
        "gate": {"max_pairs": 300, "min_effect": 0.1},
        "budgets": {"cycles": 2},
    }


def _tiny() -> dict[str, object]:
    return _demo() | {
        "ladder": [{"name": "small-act", "steps": 20}],
        "evaluate": {"episodes_per_task": 1},
        "budgets": {"cycles": 1},
    }
