"""compare: is A better than B? From two checkpoints, or from a file of outcomes."""

import hashlib
import sys
from pathlib import Path

import msgspec

from lefleet.cli.commands import Compare
from lefleet.cli.display import show_progress, show_record
from lefleet.errors import BadInput
from lefleet.ledger import Ledger, RunRow, open_ledger
from lefleet.ledger.connect import FILE as LEDGER_FILE
from lefleet.loop.requests import stage_folder
from lefleet.loop.runs import find
from lefleet.loop.status import run_state
from lefleet.records import CompareRequest, ComparisonRecord, encode
from lefleet.stages.child import run_in_child
from lefleet.stages.evidence_plot import PLOT, plot_evidence
from lefleet.stages.folder import RECORD, write_durably
from lefleet.stages.outcomes import compare_outcomes
from lefleet.stages.references import is_hub_id


def compare_command(command: Compare) -> int:
    """Run the comparison, show the evidence, print the verdict."""
    if command.outcomes is not None:
        if command.a or command.b:
            raise BadInput("from: a file of outcomes is judged by itself.", "Leave out A and B.")
        record = compare_outcomes(
            command.outcomes,
            alpha=command.alpha,
            metric=command.metric,
            scope=command.scope,
            min_effect=command.min_effect,
        )
        folder = _folder(command, encode(record))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_durably(folder / RECORD, encode(record))
        except OSError as error:
            raise BadInput(
                f"out: {folder} cannot be used: {error.strerror}.", "Choose another folder."
            ) from error
        title = command.outcomes.name
    else:
        record, folder = _run(command)
        title = f"{command.a} against {command.b}"
    _answer(record, folder, title, as_json=command.json)
    return 0


def _run(command: Compare) -> tuple[ComparisonRecord, Path]:
    if not command.a or not command.b:
        raise BadInput(
            "a, b: two checkpoints are needed.",
            "Name them as lefleet compare A B, or give a file with --from.",
        )
    workdir = command.workdir.expanduser().resolve()
    request = CompareRequest(
        checkpoint=checkpoint_named(command.a, workdir, "a"),
        baseline=checkpoint_named(command.b, workdir, "b"),
        tasks=command.tasks,
        max_pairs=command.max_pairs,
        alpha=command.alpha,
        min_effect=command.min_effect,
        metric=command.metric,
        scope=command.scope,
        seed=command.seed,
        workers=command.workers,
        device=command.device,
    )
    folder = _folder(command, encode(request))
    with show_progress("compare", as_lines=command.json) as progress:
        record = run_in_child(request, folder, progress)
    if not isinstance(record, ComparisonRecord):
        raise BadInput(f"out: {folder} holds another stage.", "Choose another folder.")
    return record, folder


def _folder(command: Compare, question: bytes) -> Path:
    """The same question goes on in, or is answered from, the same folder."""
    name = hashlib.sha256(question).hexdigest()[:12]
    return (command.out or command.workdir / "comparisons" / name).expanduser().resolve()


def _answer(record: ComparisonRecord, folder: Path, title: str, *, as_json: bool) -> None:
    plot_evidence(record, title, folder / PLOT)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(encode(record), indent=2) + b"\n")
        sys.stdout.buffer.flush()
        return
    show_record(record, folder)
    print(folder / PLOT)


_REMEDY = "Name a checkpoint's folder, RUN:CYCLE, RUN:blessed, blessed, or a hub id as user/name."


def checkpoint_named(name: str, workdir: Path, field: str) -> str:
    """A path, as it is; `RUN:CYCLE`, `RUN:blessed` or `blessed` as the ledger has it."""
    if Path(name).exists():
        return str(Path(name).resolve())
    run, colon, which = name.rpartition(":")
    if not colon and which != "blessed":
        if not is_hub_id(name):
            raise BadInput(f"{field}: {name} does not exist.", _REMEDY)
        return name
    if not (workdir / LEDGER_FILE).exists():
        raise BadInput(
            f"{field}: {name} speaks of a run, but {workdir} has no ledger.", "Name its --workdir."
        )
    ledger = open_ledger(workdir)
    row = find(ledger, run) if run else _newest_blessed(ledger, field)
    if which == "blessed":
        return _blessed(ledger, row, field)
    if not which.isdigit():
        raise BadInput(f"{field}: {which} is no cycle of {run}.", "Write RUN:2 or RUN:blessed.")
    folder = stage_folder(workdir / row.id, int(which), "train")
    if not folder.is_dir():
        raise BadInput(f"{field}: {run} has trained no checkpoint in cycle {which}.")
    return str(folder)


def _blessed(ledger: Ledger, row: RunRow, field: str) -> str:
    blessed = run_state(ledger, row).blessed()
    if blessed is None:
        raise BadInput(f"{field}: {row.id} has no blessed checkpoint yet.")
    return blessed.path


def _newest_blessed(ledger: Ledger, field: str) -> RunRow:
    for row in reversed(ledger.runs()):
        if run_state(ledger, row).blessed() is not None:
            return row
    raise BadInput(f"{field}: no run here has a blessed checkpoint.", "See: lefleet status")
