"""compare: is A better than B? From two checkpoints, or from a file of outcomes."""

import hashlib
from pathlib import Path

import msgspec

from lefleet.cli.checkpoints import checkpoint_named
from lefleet.cli.commands import Compare
from lefleet.cli.display import show_progress, show_record
from lefleet.cli.output import print_json
from lefleet.errors import BadInput
from lefleet.records import CompareRequest, ComparisonRecord, SeedBlock, encode, validated
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.child import run_in_child
from lefleet.stages.evidence_plot import PLOT, plot_evidence
from lefleet.stages.folder import RECORD, read_record, write_durably
from lefleet.stages.outcomes import compare_outcomes
from lefleet.stages.references import find_checkpoint

_SEEDS = 400_000_000
"""Of the comparisons' block and those behind it, which nothing else uses."""


def compare_command(command: Compare) -> int:
    """Run the comparison, show the evidence, print the verdict."""
    if command.outcomes is not None:
        record, folder = _from_file(command, command.outcomes)
        title = command.outcomes.name
    else:
        record, folder = _run(command)
        title = f"{command.a} against {command.b}"
    plot_evidence(record, title, folder / PLOT)
    if command.json:
        print_json(record)
        return 0
    show_record(record, folder)
    print(folder / PLOT)
    return 0


def _from_file(command: Compare, path: Path) -> tuple[ComparisonRecord, Path]:
    given = {"a": command.a, "b": command.b} | msgspec.structs.asdict(command.options)
    for name in ("a", "b", "tasks", "seed"):
        if given[name]:
            raise BadInput(
                f"{name}: a file of outcomes is judged by itself.", "Leave it out with --from."
            )
    record = compare_outcomes(path, validated(command.options))
    folder = _folder(command, encode(record))
    theirs = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if theirs - {PLOT, RECORD} or (theirs and not _is_about(folder, path)):
        raise BadInput(f"out: {folder} holds something else.", "Choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(folder / RECORD, encode(record))
    except OSError as error:
        raise BadInput(
            f"out: {folder} cannot be used: {error.strerror}.", "Choose another folder."
        ) from error
    return record, folder


def _is_about(folder: Path, path: Path) -> bool:
    """Whether the folder holds an earlier answer about this file of outcomes."""
    record = read_record(folder)
    return isinstance(record, ComparisonRecord) and record.episodes_file == str(path)


def _run(command: Compare) -> tuple[ComparisonRecord, Path]:
    if not command.a or not command.b:
        raise BadInput(
            "a, b: two checkpoints are needed.",
            "Name them as lefleet compare A B, or give a file with --from.",
        )
    workdir = command.workdir.expanduser().resolve()
    given = msgspec.structs.asdict(command.options)
    request = CompareRequest(
        checkpoint=checkpoint_named(command.a, workdir, "a"),
        baseline=checkpoint_named(command.b, workdir, "b"),
        **{name: value for name, value in given.items() if value not in (None, ())},
    )
    validated(request)
    resolve_tasks(request.tasks)
    _require_free(command.options.seed)
    digests = tuple(
        find_checkpoint(name, field).digest
        for name, field in ((request.checkpoint, "a"), (request.baseline, "b"))
    )
    question = encode((request, digests))
    if command.options.seed is None:
        request = msgspec.structs.replace(request, seed=_seed(question))
    folder = _folder(command, question)
    with show_progress("compare", as_lines=command.json) as progress:
        record = run_in_child(request, folder, progress)
    if not isinstance(record, ComparisonRecord) or (record.candidate, record.baseline) != digests:
        raise BadInput(
            f"out: {folder} holds the answer about other checkpoints.", "Choose another folder."
        )
    return record, folder


def _seed(question: bytes) -> int:
    """First seed; another question gets other pairs, the same one the same again."""
    return int(SeedBlock.COMPARE) + int(hashlib.sha256(question).hexdigest(), 16) % _SEEDS


def _require_free(seed: int | None) -> None:
    if seed is not None and seed < SeedBlock.COMPARE:
        raise BadInput(
            f"seed: {seed} is one of those that runs use for data or for judging.",
            f"Leave it out, or take one from {int(SeedBlock.COMPARE)} on.",
        )


def _folder(command: Compare, question: bytes) -> Path:
    """The same question goes on in, or is answered from, the same folder."""
    name = hashlib.sha256(question).hexdigest()[:12]
    return (command.out or command.workdir / "comparisons" / name).expanduser().resolve()
