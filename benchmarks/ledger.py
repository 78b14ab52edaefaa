"""Does a ledger with a million events append and answer as fast as one with a thousand?"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec
from sqlalchemy import URL, create_engine, insert

from benchmarks.report import Section, table
from benchmarks.workshop import Workshop, python, say
from lefleet.ledger import Ledger, open_ledger, schema
from lefleet.ledger.address import FILE
from lefleet.loop.config import load_config
from lefleet.loop.status import run_status

RUNS = tuple(f"run{number}" for number in range(10))
DEMO = Path(__file__).parents[1] / "configs" / "demo.yaml"


def measure(workshop: Workshop) -> Section:
    sizes = (100, 200) if workshop.quick else (1_000, 10_000, 100_000, 1_000_000)
    repeats = 10 if workshop.quick else 200
    folder = workshop.folder / "ledger"
    ledger = open_ledger(folder)
    config = msgspec.to_builtins(load_config(DEMO))
    for run in RUNS:
        ledger.create_run(run, {**config, "name": run})
    rows = []
    present = len(RUNS)
    for size in sizes:
        _fill(folder / FILE, size - present)
        append = median(_timed(lambda: _append(ledger), repeats))
        follow = median(_timed(lambda last=size: ledger.events(RUNS[0], after=last), repeats))
        status = median(_timed(lambda: _status(ledger), repeats))
        argv = python("-m", "lefleet", "status", "--workdir", str(folder))
        command = median(workshop.command(argv, "status") for _ in range(3))
        megabytes = (folder / FILE).stat().st_size / 1e6
        rows.append(
            (
                f"{size:,}",
                f"{append * 1e3:.2f} ms",
                f"{follow * 1e3:.2f} ms",
                f"{status * 1e3:.1f} ms",
                f"{command:.2f} s",
                f"{megabytes:.0f} MB",
            )
        )
        present = size + repeats
        say(f"{size} events are done")
    ledger.close()
    header = ("events", "append one", "read what is new", "status of 10 runs", "command", "file")
    return Section(
        "the ledger as it grows",
        (table(header, rows),),
        (
            f"Medians of {repeats} calls, of 3 for the whole command `lefleet status`. Events are",
            f"spread evenly over {len(RUNS)} runs; an append is a transaction of its own.",
        ),
    )


def _fill(file: Path, count: int) -> None:
    """Events as stages write them, in bulk."""
    data = {"cycle": 1, "stage": "train", "attempt": 1}
    now = time.time()
    engine = create_engine(URL.create("sqlite", database=str(file)))
    for start in range(0, count, 50_000):
        rows = [
            {"run": RUNS[i % len(RUNS)], "kind": "stage_started", "data": data, "at": now}
            for i in range(start, min(start + 50_000, count))
        ]
        with engine.begin() as connection:
            connection.execute(insert(schema.event), rows)
    engine.dispose()


def _append(ledger: Ledger) -> None:
    ledger.add_event(RUNS[0], "stage_started", {"cycle": 1, "stage": "train", "attempt": 1})


def _status(ledger: Ledger) -> None:
    for row in ledger.runs():
        run_status(ledger, row)


def _timed(action: Callable[[], object], repeats: int) -> list[float]:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return seconds
