"""The state and the results of runs, for people and as JSON."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from lefleet.cli.commands import WorkdirOptions
from lefleet.cli.display import console
from lefleet.cli.output import print_json
from lefleet.errors import BadInput
from lefleet.ledger import Ledger, RunRow
from lefleet.loop import activity
from lefleet.loop.activity import Activity
from lefleet.loop.runs import find, is_controlled
from lefleet.loop.state import stored_config
from lefleet.loop.status import run_status
from lefleet.loop.success_plot import PLOT


def report(ledger: Ledger, workdir: Path, run: str, *, as_json: bool) -> int:
    """Print the results of a run that has ended; exit code 1 if it failed."""
    row = find(ledger, run)
    show_runs(ledger, workdir, [row], as_json=as_json)
    if row.state == "failed":
        print(f"lefleet: {row.reason.rstrip('.')}. {resume_hint(run, workdir)}", file=sys.stderr)
        return 1
    if not as_json:
        status = run_status(ledger, row)
        console().print(_tasks(status))
        videos = stored_config(row).evaluate.videos_per_task
        _what_next(status, workdir / run, has_videos=videos > 0)
    return 0


def show_runs(ledger: Ledger, workdir: Path, rows: list[RunRow], *, as_json: bool) -> None:
    """A table or a JSON object for every run."""
    statuses = [_status(ledger, workdir, row) for row in rows]
    if as_json:
        print_json({"runs": statuses})
        return
    out = console()
    if not statuses:
        out.print("No runs yet. Start one: lefleet demo")
    for row, status in zip(rows, statuses, strict=True):
        state = "interrupted" if is_interrupted(workdir, row) else row.state
        reason = f" ({row.reason})" if row.reason else ""
        out.print(f"{row.id}: {state}{reason}", style="bold")
        out.print(status["problem"] or _cycles(status))


def label(run: str, now: Activity) -> str:
    """Run, cycle and stage. Cycles are counted from 0, as their folders are."""
    cycle = f"{run} · cycle {now.cycle} ({now.cycle + 1} of {now.cycles})"
    return f"{cycle} · {now.stage}" if now.stage else cycle


def is_interrupted(workdir: Path, row: RunRow) -> bool:
    """Whether a run is unfinished and has no running controller."""
    return activity.is_interrupted(row, is_controlled=is_controlled(workdir / row.id))


def _status(ledger: Ledger, workdir: Path, row: RunRow) -> dict[str, Any]:
    """As `run_status`; a run that this version cannot read has a problem instead of results."""
    now = {"controlled": is_controlled(workdir / row.id), "problem": ""}
    try:
        return run_status(ledger, row) | now
    except BadInput as error:
        problem = error.problem
    unknown = {"id": row.id, "state": row.state, "reason": row.reason, "tasks": [], "cycles": []}
    return unknown | {"blessed": None, "blessed_path": None} | now | {"problem": problem}


def _tasks(status: dict[str, Any]) -> Table:
    """Success of every task in every cycle."""
    cycles = [cycle for cycle in status["cycles"] if cycle["tasks"]]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("task")
    for cycle in cycles:
        table.add_column(f"cycle {cycle['index']}", justify="right")
    for task in dict.fromkeys(task for cycle in cycles for task in cycle["tasks"]):
        found = [cycle["tasks"].get(task) for cycle in cycles]
        table.add_row(task, *(f"{one['success_rate']:.0%}" if one else "" for one in found))
    return table


def _cycles(status: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("cycle", "demos", "success", "95 % interval", "decision", "checkpoint"):
        table.add_column(column)
    for cycle in status["cycles"]:
        rate, interval = cycle["success_rate"], cycle["interval"]
        table.add_row(
            str(cycle["index"]),
            str(cycle["demonstrations"] or ""),
            f"{rate:.0%}" if rate is not None else "",
            f"{interval[0]:.0%} to {interval[1]:.0%}" if interval else "",
            cycle["decision"] or f"(done: {', '.join(cycle['stages'])})",
            _checkpoint(cycle["checkpoint_digest"], status["blessed"]),
        )
    return table


def _checkpoint(digest: str | None, blessed: str | None) -> str:
    if digest is None:
        return ""
    return f"{digest[:12]} blessed" if digest == blessed else digest[:12]


def _what_next(status: dict[str, Any], folder: Path, *, has_videos: bool) -> None:
    for cycle in status["cycles"]:
        if cycle["why"]:
            print(f"cycle {cycle['index']}: {cycle['decision']}: {cycle['why']}")
        for remark in cycle["diagnosis"]:
            print(f"  look at {remark}")
    if (folder / PLOT).exists():
        print(f"Plot:       {folder / PLOT}")
    print(f"Videos:     {_videos(folder, has_videos=has_videos)}")
    if status["blessed_path"]:
        print(f"Blessed:    {status['blessed_path']}")
        tasks = " ".join(status["tasks"])
        program, flag = _program(), workdir_flag(folder.parent)
        print(
            f"Try it:     {program} eval --checkpoint {status['id']}{flag} "
            f"--tasks {tasks} --seed 400000000 --out DIR"
        )
        print(f"Serve it:   {program} serve {status['id']}{flag}")


def _program() -> str:
    """This program as the user called it, for commands to copy."""
    called = sys.argv[0]
    if Path(called).name != "lefleet" or called == shutil.which("lefleet"):
        return "lefleet"
    return shlex.quote(called)


def resume_hint(run: str, workdir: Path) -> str:
    return f"Resume it with: lefleet resume {run}{workdir_flag(workdir)}"


def workdir_flag(workdir: Path) -> str:
    """The flag that a command needs in order to find this run."""
    is_default = workdir == WorkdirOptions().workdir.resolve()
    return "" if is_default else f" --workdir {shlex.quote(str(workdir))}"


def _videos(folder: Path, *, has_videos: bool) -> str:
    if not has_videos:
        return "none requested"
    found = folder.glob("cycle_*/evaluate/videos")
    newest = max(found, key=lambda path: int(path.parts[-3].removeprefix("cycle_")), default=None)
    return str(newest or "none (see: lefleet doctor)")
