"""report: one HTML file about a run, to be sent to a colleague."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.errors import BadInput
from lefleet.ledger import read_ledger
from lefleet.loop.runs import find


@dataclass(frozen=True, kw_only=True)
class ReportCommand(WorkdirOptions):
    """Write one HTML file about a run, to send to a colleague. It has the evidence, films, lineage
    and configuration, and needs no other file, no network and no LeFleet to be read. Of a running
    run it shows what is so now."""

    run: Annotated[str, Positional, arg(metavar="NAME")]
    """Name of the run."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """The file. Default: report.html in the folder of the run. An earlier report is replaced,
    another file is not."""
    films: int = 8
    """Films of at most so many pairs, and of so many evaluated episodes; 0: none. Together they
    take at most about 14 MB."""


REPORT_COMMANDS: dict[str, type[OutputOptions]] = {"report": ReportCommand}


def write_run_report(command: ReportCommand) -> int:
    """Write the file and print where it is."""
    from lefleet.queries.runs import RunReader
    from lefleet.reports.report import REPORT, write_report

    workdir = absolute(command.workdir, "workdir")
    if command.films < 0:
        raise BadInput(f"films: {command.films}.", "Ask for 0 or more.")
    with closing(read_ledger(workdir)) as ledger:
        run = find(ledger, command.run).id
        out = absolute(command.out, "out") if command.out else workdir / run / REPORT
        with show_phases(run, as_lines=command.json) as progress:
            reader = RunReader(lambda: ledger, workdir)
            written = write_report(reader, run, out, films=command.films, progress=progress)
    if command.json:
        print_json(written._asdict() | {"path": str(written.path)})
        return 0
    print(f"Report:  {written.path} ({written.size / 1e6:.2g} MB, {written.films} films)")
    if written.films_left_out:
        print(f"{written.films_left_out} films are left out to keep it small: see --films.")
    return 0
