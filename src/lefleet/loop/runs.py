"""Begin, resume, find and stop runs."""

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from lefleet.constitution import installed, stored
from lefleet.devices import AUTO
from lefleet.errors import BadInput, StageFailed, Unknown
from lefleet.executors import for_plan
from lefleet.ledger import Ledger, RunRow
from lefleet.ledger.config_change import ConfigChange
from lefleet.loop.answers import forget_rejections, open_question
from lefleet.loop.attempts import Attempts
from lefleet.loop.config import corrected
from lefleet.loop.controller import Controller
from lefleet.loop.corrections import (
    FieldChange,
    field_changes,
    require_correctable,
    run_facts,
)
from lefleet.loop.existing_data import require_data
from lefleet.loop.limits import require_room, usage
from lefleet.loop.origin import OriginName, find_origin, require_own_seeds
from lefleet.loop.preflight import with_ready_device
from lefleet.loop.preload import NOTE
from lefleet.loop.requests import require_seeds
from lefleet.loop.rules import begin_rules, corrected_rules, launch_rules
from lefleet.loop.state import first_config, read_state, stored_config, stored_origin
from lefleet.loop.training import require_trainable
from lefleet.process import launch
from lefleet.records import CheckpointRecord, RunConfig
from lefleet.stages.progress import Progress, Update, silent

_LOG = logging.getLogger(__name__)
CONTROLLER_LOG = "controller.log"
_STARTED = f"{NOTE} controller started"
_EXIT_WAIT_S = 60.0
"""How long a controller whose run has ended may take to exit."""


def begin(
    ledger: Ledger,
    workdir: Path,
    config: RunConfig,
    start: OriginName | None = None,
    progress: Progress = silent,
    *,
    by: str = "",
) -> str:
    """Create the run, or find the one of that name, and see that it has a controller.

    `config` comes from `preflight.ready_config`. `start` names another run to start from, `by` is
    who begins or resumes it. Returns what happened: created, attached, resumed or finished.
    """
    # It is the work folder's: the ledger that this run is written to.
    config = msgspec.structs.replace(config, ledger="")
    folder = workdir / config.name
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"name: {folder} is a file.", "Give the run another --name.")
    if ledger.run(config.name) is None:
        require_trainable(config)
        require_data(config)
        origin = find_origin(ledger, workdir, start, config, progress) if start else None
        rules = begin_rules(workdir, config, origin)
        if ledger.create_run(
            config.name,
            msgspec.to_builtins(config),
            msgspec.to_builtins(origin),
            stored(rules),
            by=by,
        ):
            start_controller(workdir, config.name)
            return "created"
    row = find(ledger, config.name)
    _require_same_run(row, config, start)
    return resume(ledger, workdir, row, progress, by=by)


def resume(
    ledger: Ledger, workdir: Path, row: RunRow, progress: Progress = silent, *, by: str = ""
) -> str:
    """See that an unfinished run has a controller: attached, resumed, waiting (for a person) or
    finished. `by` is who resumes it. BadInput where its device is gone."""
    if row.state != "running":
        _wait_for_exit(ledger, row.id, progress)
        row = find(ledger, row.id)
    if row.state == "waiting" and open_question(ledger, row.id) is not None:
        return "waiting"
    if row.state == "finished":
        progress(Update.phase("restoring missing files"))
        Controller(workdir, row.id).run()
        return "finished"
    if is_controlled(ledger, row.id):
        return "attached"
    with_ready_device(workdir, stored_config(row), progress)
    if row.state in ("stopped", "denied"):
        forget_rejections(ledger, row.id)
    ledger.resume_run(row.id, by=by)
    start_controller(workdir, row.id)
    return "resumed"


def change_config(
    ledger: Ledger,
    workdir: Path,
    row: RunRow,
    overrides: Sequence[str],
    progress: Progress = silent,
    *,
    by: str = "",
) -> str:
    """Resume a run with other budgets, or with corrections of other fields; with what it has
    already, as `resume`.

    Only where it has no controller: one that is about to end the run must not miss the change. A
    stage that was begun with another request begins anew.
    """
    config = corrected(stored_config(row), overrides)
    if config.device == AUTO:
        config = with_ready_device(workdir, config, progress)
    if config == stored_config(row):
        return resume(ledger, workdir, row, progress, by=by)
    _require_correctable(ledger, row, config)
    folder = workdir / row.id
    if row.state != "running":
        _wait_for_exit(ledger, row.id, progress)
    with ledger.controllers.hold(row.id) as is_mine:
        if not is_mine:
            raise BadInput(
                f"run: {row.id} is running with its config.",
                f"Stop it, then change it: lefleet stop {row.id}",
            )
        row = find(ledger, row.id)
        state = replace(read_state(ledger, row), config=config)
        require_trainable(config)
        require_data(config)
        require_seeds(config, state.origin)
        rules = corrected_rules(row, workdir, config)
        require_own_seeds(ledger, row.id, config)
        require_room(state, row.id, usage(state, time.time() - row.created_at))
        with_ready_device(workdir, config, progress)
        # Last, for what is refused must stop no stage: what one has finished while nobody looked is
        # evidence too, and what it has not finished ends here.
        executor = for_plan(stored_config(row).executor, ledger.controllers.renew)
        Attempts(ledger, row.id, folder, executor).settle("the config was changed")
        row = find(ledger, row.id)
        changes = _require_correctable(ledger, row, config)
        change = ConfigChange(
            budgets=msgspec.to_builtins(config.budgets),
            corrections=_corrections(row, config),
            fields={one.field: (one.before, one.now) for one in changes},
            constitution=rules,
        )
        ledger.resume_run(row.id, change, by=by)
    start_controller(workdir, row.id)
    return "resumed"


def _require_correctable(ledger: Ledger, row: RunRow, config: RunConfig) -> list[FieldChange]:
    """What changes but budgets; BadInput where a field may not."""
    state = read_state(ledger, row)
    gates = {one.cycle for one in ledger.attempts(row.id) if one.stage == "gate"}
    changes = field_changes(state.config, config)
    require_correctable(state, changes, run_facts(state, gates))
    return [one for one in changes if not one.field.startswith("budgets.")]


def _corrections(row: RunRow, config: RunConfig) -> dict[str, Any]:
    """Fields but budgets that differ from those of the begin."""
    first: dict[str, Any] = msgspec.to_builtins(first_config(row))
    now: dict[str, Any] = msgspec.to_builtins(config)
    return {
        name: value for name, value in now.items() if name != "budgets" and value != first[name]
    }


def stop(
    ledger: Ledger, workdir: Path, row: RunRow, progress: Progress = silent, *, by: str = ""
) -> str:
    """Stop a run and wait until its controller has exited; the state in which the run ended."""
    progress(Update.phase("waiting for the stage and the controller to exit"))
    ledger.request_stop(row.id, by=by)
    row = find(ledger, row.id)
    while row.state == "running" or is_controlled(ledger, row.id):
        if is_controlled(ledger, row.id):
            time.sleep(0.2)
        else:
            # The run has no controller to stop it, so this process does what one would do.
            Controller(workdir, row.id).run()
        row = find(ledger, row.id)
    return row.state


def find(ledger: Ledger, run: str) -> RunRow:
    """The run of that name; Unknown lists the existing ones."""
    row = ledger.run(run)
    if row is None:
        names = ", ".join(one.id for one in ledger.runs())
        remedy = f"Runs here: {names}." if names else "Name the --workdir that it was begun with."
        raise Unknown(f"run: there is no run called {run}.", remedy)
    return row


def newest_blessed(ledger: Ledger) -> tuple[RunRow, CheckpointRecord] | None:
    """The newest run that has a blessed checkpoint, and that checkpoint.

    A run that this lefleet cannot read is skipped with a warning.
    """
    for row in reversed(ledger.runs()):
        try:
            blessed = read_state(ledger, row).blessed()
        except BadInput as error:
            _LOG.warning("Run %s is skipped: %s", row.id, error.problem)
            continue
        if blessed is not None:
            return row, blessed
    return None


def start_controller(workdir: Path, run: str) -> None:
    """Start a controller that outlives this process; it exits if there is another one."""
    folder = workdir / run
    folder.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-m", "lefleet", "controller", "exec", str(workdir), run)
    with installed(launch_rules(workdir)), (folder / CONTROLLER_LOG).open("ab") as log:
        log.write(f"{_STARTED} {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
        log.flush()
        process = launch(argv, stdout=log, stderr=log, detached=True)
    # It is not waited for here; the thread collects its exit code if this process lives longer.
    Thread(target=process.wait, daemon=True).start()


def is_controlled(ledger: Ledger, run: str) -> bool:
    """Whether the run has a running controller, on any machine."""
    return ledger.controllers.host(run) is not None


def last_log_line(folder: Path) -> str:
    """The last line that the newest controller of a run printed, notes left out; empty when it
    printed none."""
    log = folder / CONTROLLER_LOG
    text = log.read_text(errors="replace") if log.exists() else ""
    printed = text.rpartition(_STARTED)[2].splitlines()[1:]
    said = (line.strip() for line in reversed(printed) if not line.startswith(NOTE))
    return next((line for line in said if line), "")


def _wait_for_exit(ledger: Ledger, run: str, progress: Progress) -> None:
    """A controller whose run has ended may still be writing its last files."""
    progress(Update.phase("waiting for the controller to exit"))
    deadline = time.monotonic() + _EXIT_WAIT_S
    while is_controlled(ledger, run):
        if time.monotonic() > deadline:
            host = ledger.controllers.host(run)
            raise StageFailed(
                f"The controller of {run} does not exit.",
                f"Kill it{f' on {host}' if host else ''}, then resume the run.",
            )
        time.sleep(0.1)


def _require_same_run(row: RunRow, mine: RunConfig, start: OriginName | None) -> None:
    """Raise BadInput where the run that is there is not the one that is asked for. Its fields may
    be those of its begin or those that hold now."""
    remedy = f"Give this one another --name, or continue that one: lefleet resume {row.id}"
    first, theirs, origin = first_config(row), stored_config(row), stored_origin(row)
    if (start is None) != (origin is None) or (start and origin and not start.means(origin)):
        begun = f"from {origin.run}:{origin.cycle}" if origin else "without --from"
        raise BadInput(f"name: there is a run called {row.id}, which started {begun}.", remedy)
    differing = [
        name
        for name in mine.__struct_fields__
        if name != "budgets"
        and getattr(mine, name) not in (getattr(first, name), getattr(theirs, name))
    ]
    if differing:
        raise BadInput(
            f"name: there is a run called {row.id} with another config ({differing[0]} differs).",
            remedy,
        )
    if mine.budgets not in (first.budgets, theirs.budgets):
        now, asked = msgspec.to_builtins(theirs.budgets), msgspec.to_builtins(mine.budgets)
        flags = " ".join(f"--budgets.{k}={v}" for k, v in asked.items() if v != now[k])
        raise BadInput(
            f"budgets: there is a run called {row.id} with other budgets.",
            f"Change them: lefleet resume {row.id} {flags}. Or give this run another --name.",
        )
