"""demo, run, resume, stop: commands that begin and end runs.

A run has a controller process of its own. These commands start it or ask it to stop.
"""

import sys
import traceback
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from lefleet.actions.people import user_name
from lefleet.cli.commands import DemoCommand, ResumeCommand, RunCommand, StopCommand
from lefleet.cli.output import print_json
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.cli.report import resume_hint
from lefleet.cli.view import HAPPENED, attach
from lefleet.errors import BadInput, LeaseLost, LeFleetError
from lefleet.ledger import open_ledger, read_ledger
from lefleet.ledger.address import has_ledger
from lefleet.loop import runs as loop_runs
from lefleet.loop.config import DEMO_CONFIG, check_workdir, load_config
from lefleet.loop.controller import Controller
from lefleet.loop.findings import Preflight, result_lines
from lefleet.loop.origin import OriginName, find_origin, parse_origin
from lefleet.loop.plan import plan_lines
from lefleet.loop.preflight import examine_config, ready_config
from lefleet.loop.rules import begin_rules
from lefleet.loop.runs import find
from lefleet.records import RunConfig, RunOrigin
from lefleet.stages.progress import Progress


def control(workdir: Path, run: str) -> int:
    """`lefleet controller exec WORKDIR RUN`; its output is the run's controller.log."""
    try:
        return Controller(workdir, run, may_fork=True).run()
    except LeaseLost as error:
        print(error, file=sys.stderr)
        return 1
    except (LeFleetError, OSError, SQLAlchemyError) as error:
        traceback.print_exc()
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1


def run(command: RunCommand | DemoCommand, overrides: Sequence[str]) -> int:
    """Start or find the run of this config, and show it until it ends."""
    path = DEMO_CONFIG if isinstance(command, DemoCommand) else command.config
    config = load_config(path, overrides)
    workdir = absolute(command.workdir, "workdir")
    check_workdir(workdir)
    named = command.start if isinstance(command, RunCommand) else ""
    start = parse_origin(named) if named else None
    # Before a ledger is made: what is refused or denied leaves nothing behind.
    with show_phases(config.name, as_lines=command.json) as progress:
        examine = examine_config if command.plan else ready_config
        checked = examine(workdir, config, progress)
    if command.plan:
        return _plan(command, workdir, checked, start)
    for line in result_lines(checked.besides_first_problem()):
        print(line, file=sys.stderr)
    config = checked.require_ok()
    with (
        closing(open_ledger(workdir, config.ledger)) as ledger,
        show_phases(config.name, as_lines=command.json) as progress,
    ):
        happened = loop_runs.begin(ledger, workdir, config, start, progress, by=user_name())
    return attach(workdir, config.name, happened, as_json=command.json)


def _plan(
    command: RunCommand | DemoCommand, workdir: Path, checked: Preflight, start: OriginName | None
) -> int:
    """Print what would be done and what was checked; exit code 2 where it could not begin."""
    config, results = checked.config, checked.results
    with show_phases(config.name, as_lines=command.json) as progress:
        origin = _origin(workdir, config, start, progress)
        begin_rules(workdir, config, origin)
    lines = list(plan_lines(config, workdir / config.name, origin))
    if command.json:
        print_json({"lines": lines, "checks": results})
    else:
        print("\n".join([*lines, *(("", "checks") if results else ()), *result_lines(results)]))
    return BadInput.exit_code if any(one.state == "problem" for one in results) else 0


def _origin(
    workdir: Path, config: RunConfig, start: OriginName | None, progress: Progress
) -> RunOrigin | None:
    """What a planned run would start from."""
    if start is None:
        return None
    with closing(read_ledger(workdir)) as ledger:
        return find_origin(ledger, workdir, start, config, progress)


def resume(command: ResumeCommand, overrides: Sequence[str]) -> int:
    """Resume one run, perhaps with another config, and show it until it ends; or resume all runs
    and return."""
    if bool(command.run) == command.all:
        given = "both a name and --all" if command.all else "none"
        raise BadInput(f"run: {given} given.", "Name one, or use --all.")
    if command.all and overrides:
        raise BadInput(f"{overrides[0]}: configs are changed one run at a time.", "Name the run.")
    workdir = absolute(command.workdir, "workdir")
    if command.all:
        return _resume_all(workdir, as_json=command.json)
    who = user_name()
    with (
        closing(open_ledger(workdir, create=False)) as ledger,
        show_phases(command.run, as_lines=command.json) as progress,
    ):
        row = find(ledger, command.run)
        if overrides:
            happened = loop_runs.change_config(ledger, workdir, row, overrides, progress, by=who)
        else:
            happened = loop_runs.resume(ledger, workdir, row, progress, by=who)
    return attach(workdir, command.run, happened, as_json=command.json)


def _resume_all(workdir: Path, *, as_json: bool) -> int:
    runs, code = [], 0
    if has_ledger(workdir):
        with closing(open_ledger(workdir)) as ledger:
            for row in ledger.runs():
                was_running = row.state in ("running", "waiting")
                happened = row.state
                if was_running:
                    try:
                        happened = loop_runs.resume(ledger, workdir, row, by=user_name())
                    except BadInput as error:
                        # The others go on.
                        happened, code = "refused", error.exit_code
                        print(f"lefleet: {row.id}: {error}", file=sys.stderr)
                runs.append({"id": row.id, "happened": happened})
                if was_running and happened != "refused":
                    print(HAPPENED[happened].format(run=row.id), file=sys.stderr)
                elif row.state != "finished" and not was_running and not as_json:
                    print(f"{row.id} is {row.state}. {resume_hint(row.id, workdir)}")
    if as_json:
        print_json({"runs": runs})
    return code


def stop(command: StopCommand) -> int:
    """Ask a run to stop and wait until it has."""
    workdir = absolute(command.workdir, "workdir")
    with closing(open_ledger(workdir, create=False, migrate=False)) as ledger:
        row = find(ledger, command.run)
        state = row.state
        if row.state in ("running", "waiting"):
            with show_phases(row.id, as_lines=command.json) as progress:
                state = loop_runs.stop(ledger, workdir, row, progress, by=user_name())
        if row.state not in ("running", "waiting"):
            message = f"{row.id} is not running: it is {state}."
        elif state == "stopped":
            message = f"{row.id} has stopped. {resume_hint(row.id, workdir)}"
        else:
            message = f"{row.id} ended before it could be stopped: it is {state}."
    print(message, file=sys.stderr)
    if command.json:
        print_json({"run": row.id, "state": state})
    return 0
