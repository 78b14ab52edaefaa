"""The state and the results of runs, for people and as JSON."""

import shlex
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lefleet.cli.display import console
from lefleet.cli.output import print_json, printable
from lefleet.dash.address import running
from lefleet.devices import CPU
from lefleet.errors import Denied
from lefleet.ledger import Ledger, RunRow
from lefleet.loop.activity import Activity
from lefleet.loop.diagnosis import PAGE as DIAGNOSIS
from lefleet.loop.runs import find
from lefleet.loop.state import stored_config
from lefleet.loop.success_plot import PLOT
from lefleet.queries.status import RunStatus, run_status
from lefleet.queries.words import budget, duration, hours_by_device
from lefleet.queries.words import workdir_flag as workdir_flag  # noqa: PLC0414 - for commands
from lefleet.records import RunConfig

WAITING = 3
"""Exit code of a viewer whose run waits for a person."""


def report(ledger: Ledger, workdir: Path, run: str, *, as_json: bool) -> int:
    """Print the results of a run that has ended or waits. Exit code 1: it failed. 3: it waits for
    a person. 4: its constitution denied something."""
    row = find(ledger, run)
    show_runs(ledger, workdir, [row], as_json=as_json)
    if row.state == "failed":
        print(f"lefleet: {row.reason.rstrip('.')}. {resume_hint(run, workdir)}", file=sys.stderr)
        return 1
    if row.state == "denied":
        print(f"lefleet: denied by the constitution: {printable(row.reason)}", file=sys.stderr)
        print(f"Then: {resume_hint(run, workdir)}", file=sys.stderr)
        return Denied.exit_code
    if row.state == "waiting":
        if not as_json:
            print(dashboard_line(workdir, run))
        return WAITING
    if not as_json:
        status = run_status(ledger, workdir, row)
        console().print(_tasks(status))
        _what_next(status, workdir / run, stored_config(row))
    return 0


def show_runs(
    ledger: Ledger,
    workdir: Path,
    rows: list[RunRow],
    *,
    as_json: bool,
    with_reasons: bool = False,
) -> None:
    """A table or a JSON object for every run, if asked with the reasons of its decisions."""
    statuses = [run_status(ledger, workdir, row) for row in rows]
    if as_json:
        print_json({"runs": statuses})
        return
    out = console()
    if not statuses:
        out.print(f"No runs yet. Start one: lefleet demo{workdir_flag(workdir)}")
    for status in statuses:
        for part in shown(status, workdir):
            out.print(part)
        if with_reasons:
            _print_reasons(status)


def shown(status: RunStatus, workdir: Path, *, is_brief: bool = False) -> Iterator[RenderableType]:
    """One run for a person, line by line and table by table; `is_brief` where its flow is shown
    too, which tells what is done."""
    yield Text(_headline(status), style="bold")
    if status.problem:
        yield Text(status.problem)
    if status.cycles:
        yield _cycles(status)
    now = status.now
    if now is not None:
        where = _where(now.cycle, now.cycles, now.stage, now.attempt)
        yield Text(f"Now:        {where}: {now.text()}")
        done = {one.index: one.stages for one in status.cycles}.get(now.cycle, ())
        if done and not is_brief:
            yield Text(f"Done:       {', '.join(done)}")
        if now.wait is not None and now.attempt:
            yield Text(f"Waits for:  {now.wait.what}")
    if status.host not in (None, socket.gethostname()):
        yield Text(f"Controller: on {status.host}")
    if status.state == "waiting":
        yield from _waits_for(status, workdir)
    if used := _budgets(status):
        yield Text(f"Budgets:    {used}")
    if set(status.device_hours) - {CPU}:
        yield Text(f"Devices:    {hours_by_device(status.device_hours)}")


def _waits_for(status: RunStatus, workdir: Path) -> Iterator[RenderableType]:
    """What a run waits for, and how to answer; how to resume it where it has been answered."""
    run, flag = status.id, workdir_flag(workdir)
    asked = status.open_approval()
    if asked is None:
        yield Text(f"Answered.   {resume_hint(run, workdir)}")
        return
    yield Text(f"Waits for:  a person to {printable(asked.text)}")
    if asked.expires_at is not None:
        clock = time.strftime("%Y-%m-%d %H:%M", time.localtime(asked.expires_at))
        yield Text(f"Until:      {clock}, then: {asked.on_timeout}")
    answer = f"{run} --question={asked.id}{flag}"
    yield Text(f"Say yes:    lefleet approve {answer}")
    yield Text(f"Say no:     lefleet reject {answer} --why REASON")


def _headline(status: RunStatus) -> str:
    state = "interrupted" if status.interrupted else status.state
    has_reason = status.reason and state != "waiting"
    reason = f" ({printable(status.reason)})" if has_reason else ""
    origin = f", from {status.origin}" if status.origin else ""
    text = f"{status.id}{origin}: {state}{reason}"
    if status.elapsed_s is None:
        return text
    word = "for" if state == "running" else "after"
    return f"{text} {word} {duration(status.elapsed_s)}"


def _budgets(status: RunStatus) -> str:
    """What is used of those that have a limit; of cycles alone only while the run is running."""
    limited = {name: one for name, one in status.budgets.items() if one.limit}
    if status.state != "running" and set(limited) == {"cycles"}:
        return ""
    return ", ".join(budget(name, one.used, one.limit) for name, one in limited.items())


def label(run: str, now: Activity) -> str:
    """Run, cycle and stage."""
    return f"{run} · {_where(now.cycle, now.cycles, now.stage, now.attempt)}"


def _where(cycle: int, cycles: int, stage: str, attempt: int) -> str:
    """Cycles are counted from 0, as their folders and checkpoints are."""
    which = f"cycle {cycle} ({cycle + 1} of {cycles})"
    again = f" (attempt {attempt})" if attempt > 1 else ""
    return f"{which} · {stage}{again}" if stage else which


def _tasks(status: RunStatus) -> Table:
    """Success of every task in every cycle."""
    cycles = [cycle for cycle in status.cycles if cycle.tasks]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("task")
    for cycle in cycles:
        table.add_column(f"cycle {cycle.index}", justify="right")
    for task in dict.fromkeys(task for cycle in cycles for task in cycle.tasks):
        found = [cycle.tasks.get(task) for cycle in cycles]
        table.add_row(task, *(f"{one.success_rate:.0%}" if one else "" for one in found))
    return table


def _cycles(status: RunStatus) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("cycle", "demos", "success", "95 % interval", "decision", "checkpoint"):
        table.add_column(column)
    for cycle in status.cycles:
        rate, interval = cycle.success_rate, cycle.interval
        table.add_row(
            str(cycle.index),
            str(cycle.demonstrations or ""),
            f"{rate:.0%}" if rate is not None else "",
            f"{interval[0]:.0%} to {interval[1]:.0%}" if interval else "",
            cycle.decision or "",
            _checkpoint(cycle.checkpoint_digest, status.blessed),
        )
    return table


def _checkpoint(digest: str | None, blessed: str | None) -> str:
    if digest is None:
        return ""
    return f"{digest[:12]} blessed" if digest == blessed else digest[:12]


def _print_reasons(status: RunStatus) -> None:
    for cycle in status.cycles:
        if cycle.why:
            print(printable(f"cycle {cycle.index}: {cycle.decision}: {cycle.why}"))
        for remark in cycle.diagnosis:
            print(f"  look at {remark}")


def _what_next(status: RunStatus, folder: Path, config: RunConfig) -> None:
    _print_reasons(status)
    if (folder / DIAGNOSIS).exists():
        print(f"Diagnosis:  {folder / DIAGNOSIS}")
    if (folder / PLOT).exists():
        print(f"Plot:       {folder / PLOT}")
    print(f"Videos:     {_videos(folder, config)}")
    program, flag = _program(), workdir_flag(folder.parent)
    print(dashboard_line(folder.parent, status.id))
    print(f"Learned:    {program} knowledge show {status.id}{flag}")
    if status.blessed_path:
        print(f"Blessed:    {status.blessed_path}")
        if not config.evaluate.env:
            print(f"Try it:     {program} try {status.id}{flag}")
        print(
            f"Measure it: {program} eval --checkpoint {status.id}{flag} "
            f"{_simulation(config)} --seed 400000000 --out DIR"
        )
        print(f"Serve it:   {program} serve {status.id}{flag}")


def _simulation(config: RunConfig) -> str:
    """Where the run evaluates, as flags of `lefleet eval`."""
    words = ["--tasks", *config.tasks]
    if config.evaluate.env:
        words = ["--env", *(word for pair in config.evaluate.env.items() for word in pair)]
    if config.device != "cpu":
        words += ["--device", config.device]
    return shlex.join(words)


def _program() -> str:
    """This program as the user called it, for commands to copy."""
    called = sys.argv[0]
    if Path(called).name != "lefleet" or called == shutil.which("lefleet"):
        return "lefleet"
    return shlex.quote(called)


def dashboard_line(workdir: Path, run: str) -> str:
    """Where a run can be seen in a browser, or how to start what shows it."""
    if (address := running(workdir)) is not None:
        return f"Dashboard:  {address}/runs/{quote(run, safe='')}"
    return f"Dashboard:  {_program()} dash{workdir_flag(workdir)}"


def resume_hint(run: str, workdir: Path) -> str:
    return f"Resume it with: lefleet resume {run}{workdir_flag(workdir)}"


def _videos(folder: Path, config: RunConfig) -> str:
    """Where films of the newest cycle are."""
    if not config.evaluate.videos_per_task:
        return "none requested"
    found = folder.glob("cycle_*/evaluate/videos")
    newest = max(found, key=lambda path: _cycle_of(path.relative_to(folder)), default=None)
    return str(newest or "none (see: lefleet doctor)")


def _cycle_of(path: Path) -> int:
    return int(path.parts[0].removeprefix("cycle_"))
