"""track: log a run to trackers now, whatever its config says of them."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.constitution import ConstitutionSource, Grants, installed, packaged, rules_for_grants
from lefleet.errors import BadInput, StageFailed
from lefleet.ledger import read_ledger
from lefleet.loop.runs import find
from lefleet.loop.state import stored_config
from lefleet.records import Tracker
from lefleet.stages.progress import Update


@dataclass(frozen=True, kw_only=True)
class TrackCommand(WorkdirOptions):
    """Log a run to trackio or W&B, also one that is over or that has no track in its config.

    trackio keeps it on this machine, W&B in files for wandb sync. Nothing is logged twice."""

    run: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the run."""
    to: tuple[Tracker, ...] = ()
    """Trackers. Default: those in the config of the run, and trackio where it has none."""


TRACK_COMMANDS: dict[str, type[OutputOptions]] = {"track": TrackCommand}


def track(command: TrackCommand) -> int:
    """Log, and print how to look at it."""
    from lefleet.track import require_trackers
    from lefleet.track.names import show_command
    from lefleet.track.outbox import decisions

    workdir = absolute(command.workdir, "workdir")
    with closing(read_ledger(workdir)) as ledger:
        row = find(ledger, command.run)
        count = decisions(ledger, row.id)
        trackers: tuple[Tracker, ...] = command.to or stored_config(row).track or ("trackio",)
    require_trackers(trackers)
    if not count:
        raise BadInput(
            f"run: no cycle of {row.id} is decided yet, so there is nothing to log.",
            f"See: lefleet status {row.id}",
        )
    with show_phases(row.id, as_lines=command.json) as progress:
        for tracker in trackers:
            progress(Update.phase(f"logging to {tracker}"))
            _log(tracker, workdir, row.id)
    shown = {tracker: show_command(tracker, workdir, row.id) for tracker in trackers}
    if command.json:
        print_json({"run": row.id, "cycles": count, "show": shown})
        return 0
    print(f"{row.id}: {count} cycles are logged. To look at them:")
    for line in shown.values():
        print(f"  {line}")
    return 0


def _log(tracker: Tracker, workdir: Path, run: str) -> None:
    """Under the rules that come with LeFleet: nothing of this leaves the machine."""
    from lefleet.process.errand import errand_lock
    from lefleet.track.outbox import LOCK
    from lefleet.track.sender import log_to

    source = ConstitutionSource(path="", constitution=packaged())
    rules = rules_for_grants(source, Grants(folders=(str(workdir),)))
    with errand_lock(workdir / run / LOCK) as is_mine, installed(rules):
        if not is_mine:
            raise StageFailed(f"Another process logs {run}.", "Run this again in a minute.")
        if problem := log_to(tracker, workdir, run):
            raise StageFailed(f"{run} is not logged to {tracker}: {problem}")
