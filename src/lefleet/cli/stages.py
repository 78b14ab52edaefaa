"""collect, train, eval, improve, compare, profile: one stage as a child process, its result."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from lefleet.cli.checkpoints import choose_checkpoint
from lefleet.cli.commands import (
    CheckpointStageCommand,
    CompareCommand,
    ProfileCommand,
    StageCommand,
)
from lefleet.cli.display import show_record
from lefleet.cli.options import OutputOptions, RestartOptions
from lefleet.cli.output import print_json
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases, show_progress
from lefleet.constitution.active import WORKDIR
from lefleet.durable import write_durably
from lefleet.errors import BadInput, Denied
from lefleet.ledger.journal import FILE as EVENTS
from lefleet.records import (
    CompareOptions,
    CompareRequest,
    ComparisonRecord,
    EvaluateRequest,
    ProfileRequest,
    Request,
    SeedBlock,
    TrainRequest,
    encode,
    validated,
)
from lefleet.sim.tasks import resolve_tasks
from lefleet.stages.environment import simulated_tasks
from lefleet.stages.eval_info import EVAL_INFO
from lefleet.stages.evidence_plot import PLOT, plot_evidence
from lefleet.stages.folder import RECORD, read_record
from lefleet.stages.outcomes import compare_outcomes
from lefleet.stages.progress import DIGESTING
from lefleet.stages.references import find_checkpoint
from lefleet.stages.run import restart, run_in_child

_SEEDS = 400_000_000
"""Number of seeds from the comparisons' block on, which nothing else uses."""


def run_stage_command(command: StageCommand) -> int:
    """Run the stage as a child process, show its progress, print its record."""
    request, folder = _request(command), absolute(command.out, "out")
    with _restarted(command, folder), show_progress(as_lines=command.json) as show:
        record = run_in_child(request, folder, partial(show, folder.name), _workdir(command))
    if command.json:
        print_json(record)
    else:
        show_record(record, folder)
    return 0


@contextmanager
def _restarted(command: RestartOptions, folder: Path) -> Iterator[None]:
    """Set aside what the folder holds, where that was asked for; put it back where the request is
    refused, for that changes nothing."""
    kept = _set_aside(folder) if command.restart else None
    try:
        yield
    except (BadInput, Denied):
        if kept is not None and not folder.exists():
            kept.rename(folder)
            print(f"{folder} is again as it was.", file=sys.stderr)
        raise


def _set_aside(folder: Path) -> Path | None:
    run = folder.parent.parent
    if (run / EVENTS).exists():
        raise BadInput(
            f"restart: {folder} belongs to the run {run.name}, which would miss it.",
            f"Resume the run: lefleet resume {run.name}. Or choose another folder.",
        )
    if (kept := restart(folder)) is not None:
        print(f"{folder} starts anew; what it held is in {kept}.", file=sys.stderr)
    return kept


def _workdir(command: OutputOptions) -> Path:
    """Where a constitution may lie."""
    return absolute(getattr(command, "workdir", WORKDIR), "workdir")


def _request(command: StageCommand) -> Request:
    """The command's request, with its checkpoint resolved."""
    request: Request = command.request  # type: ignore[attr-defined]
    if isinstance(request, EvaluateRequest) and not request.env:
        simulated_tasks(request)
    field = "init" if isinstance(request, TrainRequest) else "checkpoint"
    name = getattr(request, field, "")
    if not isinstance(command, CheckpointStageCommand) or not name:
        return request
    found = choose_checkpoint(name, command.workdir, field)
    return msgspec.structs.replace(request, **{field: found.location})


def compare(command: CompareCommand) -> int:
    """Run the comparison, or judge outcomes in files; plot the evidence, print the verdict."""
    if command.outcomes:
        record, folder = _from_files(command)
        title = " against ".join(_title(path) for path in command.outcomes)
    else:
        record, folder = _from_episodes(command)
        title = f"{command.a} against {command.b}"
    has_plot = record.looks != ()
    if has_plot:
        plot_evidence(record, title, folder / PLOT)
    if command.json:
        print_json(record)
        return 0
    show_record(record, folder)
    if has_plot:
        print(folder / PLOT)
    return 0


def _title(path: Path) -> str:
    """A file by its folder, where its own name says nothing."""
    return path.resolve().parent.name if path.name == EVAL_INFO else path.resolve().name


def _from_files(command: CompareCommand) -> tuple[ComparisonRecord, Path]:
    given = {"a": command.a, "b": command.b} | msgspec.structs.asdict(command.options)
    unset = {"a": "", "b": ""} | msgspec.structs.asdict(CompareOptions())
    for name in ("a", "b", "tasks", "seed", "env", "initial_states"):
        if given[name] != unset[name]:
            raise BadInput(f"{name}: it has no effect with --from.", "Leave one of them out.")
    if command.restart:
        raise BadInput("restart: it has no effect with --from.", "Leave it out.")
    record = compare_outcomes(command.outcomes, command.options, same_seeds=command.same_seeds)
    folder = _folder(command, encode(record))
    present = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if present - {PLOT, RECORD} or (present and not _is_about_the_same(folder, record)):
        raise BadInput(f"out: {folder} holds something else.", "Choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(folder / RECORD, encode(record))
    except OSError as error:
        raise BadInput(
            f"out: {folder} cannot be used: {error.strerror}.", "Choose another folder."
        ) from error
    return record, folder


def _is_about_the_same(folder: Path, record: ComparisonRecord) -> bool:
    """Whether the folder holds an earlier answer about the files of this one."""
    earlier = read_record(folder)
    return isinstance(earlier, ComparisonRecord) and _files(earlier) == _files(record)


def _files(record: ComparisonRecord) -> tuple[str, ...]:
    return record.episodes_file, record.candidate_path, record.baseline_path


def _from_episodes(command: CompareCommand) -> tuple[ComparisonRecord, Path]:
    if not command.a or not command.b:
        raise BadInput(
            "a, b: two checkpoints are needed.",
            "Name them as lefleet compare A B, or give files with --from.",
        )
    if command.same_seeds:
        raise BadInput("same_seeds: it has no effect without --from.", "Leave it out.")
    given = msgspec.structs.asdict(validated(command.options))
    alpha = given.pop("alpha")
    request = CompareRequest(
        alpha_better=alpha,
        alpha_worse=alpha,
        checkpoint=choose_checkpoint(command.a, command.workdir, "a").location,
        baseline=choose_checkpoint(command.b, command.workdir, "b").location,
        **{name: value for name, value in given.items() if value not in (None, ())},
    )
    validated(request)
    if not request.env:
        simulated_tasks(request)
    _require_free(command.options.seed)
    with show_phases("compare", as_lines=command.json) as progress:
        progress(DIGESTING)
        digests = tuple(
            find_checkpoint(name, field).digest
            for name, field in ((request.checkpoint, "a"), (request.baseline, "b"))
        )
    # Films are left out: no answer depends on them.
    asked = {k: v for k, v in msgspec.to_builtins(request).items() if k != "films"}
    question = encode((asked, digests))
    if command.options.seed is None:
        request = msgspec.structs.replace(request, seed=_seed(question))
    folder = _folder(command, question)
    with _restarted(command, folder), show_progress(as_lines=command.json) as show:
        record = run_in_child(request, folder, partial(show, "compare"), _workdir(command))
    if not isinstance(record, ComparisonRecord) or (record.candidate, record.baseline) != digests:
        raise BadInput(
            f"out: {folder} holds the answer about other checkpoints.", "Choose another folder."
        )
    return record, folder


def _seed(question: bytes) -> int:
    """First seed: the same question gets the same pairs, another question others."""
    return int(SeedBlock.COMPARE) + int(hashlib.sha256(question).hexdigest(), 16) % _SEEDS


def _require_free(seed: int | None) -> None:
    if seed is not None and seed < SeedBlock.COMPARE:
        raise BadInput(
            f"seed: {seed} is reserved for the data and the evaluations of runs.",
            f"Leave it out, or take one from {int(SeedBlock.COMPARE)} on.",
        )


def profile(command: ProfileCommand) -> int:
    """Run the profile, print its cells and the envelope."""
    given = msgspec.structs.asdict(command.options)
    found = choose_checkpoint(command.checkpoint, command.workdir, "checkpoint")
    request = validated(ProfileRequest(checkpoint=found.location, **given))
    if request.tasks:
        resolve_tasks(request.tasks)
    digest = find_checkpoint(request.checkpoint, "checkpoint").digest
    folder = _folder(command, encode((request, digest)))
    with _restarted(command, folder), show_progress(as_lines=command.json) as show:
        record = run_in_child(request, folder, partial(show, "profile"), _workdir(command))
    if command.json:
        print_json(record)
    else:
        show_record(record, folder)
    return 0


def _folder(command: CompareCommand | ProfileCommand, question: bytes) -> Path:
    """The same question always gets the same folder."""
    name = hashlib.sha256(question).hexdigest()[:12]
    kind = "comparisons" if isinstance(command, CompareCommand) else "profiles"
    default = absolute(command.workdir, "workdir") / kind / name
    return absolute(command.out or default, "out")
