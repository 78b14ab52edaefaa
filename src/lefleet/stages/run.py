"""Run one stage in its folder, in this process or as a process of its own.

The process is `lefleet stage exec FOLDER`. It reads the request from its folder. It writes its
progress to `progress.json`, why it failed to `failure.json`, and all output, its own and that of
libraries, to `log.txt`. So any process can watch a running stage, whichever process started it.
"""

import contextlib
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, overload

import msgspec

from lefleet.cluster.fence import Outdated
from lefleet.constitution import Rules, find, given, installed, rules_for_request
from lefleet.constitution.active import WORKDIR
from lefleet.devices import AUTO, ready_device
from lefleet.durable import write_durably
from lefleet.errors import BadInput, ChildKilled, Denied, LeFleetError, StageFailed
from lefleet.process import launch, oom_kills, processes_marked, stop
from lefleet.records import (
    CheckpointRecord,
    CollectRequest,
    CompareRequest,
    ComparisonRecord,
    DatasetRecord,
    EnvelopeRecord,
    EvaluateRequest,
    EvaluationRecord,
    ImproveRequest,
    MixRecord,
    ProfileRequest,
    ProposalRecord,
    ProposeRequest,
    Record,
    Request,
    TrainRequest,
    decode,
    validated,
)
from lefleet.records.border import Strict
from lefleet.stages.child_output import failure_of, split_lines
from lefleet.stages.folder import (
    LOG,
    REQUEST,
    START_ANEW,
    StageFolder,
    committed,
    in_use,
    read_record,
    set_aside,
)
from lefleet.stages.progress import (
    Progress,
    ProgressWriter,
    StageProgress,
    Update,
    read_progress,
    silent,
)

STAGE_MARK = "LEFLEET_STAGE"
"""Environment variable of a stage's process and all its descendants: the stage's folder."""
FAILURE = "failure.json"
POLL_S = 0.1

_BODIES: dict[type, str] = {
    TrainRequest: "lefleet.stages.train",
    EvaluateRequest: "lefleet.stages.evaluate",
    CompareRequest: "lefleet.stages.compare",
    ImproveRequest: "lefleet.stages.improve",
    ProfileRequest: "lefleet.profile.profile",
    ProposeRequest: "lefleet.models.propose",
}
"""The module of each stage, whose function of the same name does the work. Any other request
collects. By name, because they import LeRobot, and `profile` and `models` import `stages`."""


@overload
def run_stage(
    request: CollectRequest, folder: str | Path, progress: Progress = ...
) -> DatasetRecord: ...
@overload
def run_stage(
    request: TrainRequest, folder: str | Path, progress: Progress = ...
) -> CheckpointRecord: ...
@overload
def run_stage(
    request: EvaluateRequest, folder: str | Path, progress: Progress = ...
) -> EvaluationRecord: ...
@overload
def run_stage(
    request: CompareRequest, folder: str | Path, progress: Progress = ...
) -> ComparisonRecord: ...
@overload
def run_stage(
    request: ImproveRequest, folder: str | Path, progress: Progress = ...
) -> MixRecord: ...
@overload
def run_stage(
    request: ProfileRequest, folder: str | Path, progress: Progress = ...
) -> EnvelopeRecord: ...
@overload
def run_stage(
    request: ProposeRequest, folder: str | Path, progress: Progress = ...
) -> ProposalRecord: ...
def run_stage(request: Request, folder: str | Path, progress: Progress = silent) -> Record:
    """Carry out `request` in `folder` and return its record.

    Safe to call again: a committed record is returned at once, an interrupted stage is resumed.
    Raises Denied where the rules of this process do not allow it; without any, what is asked for
    here is what they grant.
    """
    path = Path(folder).resolve()
    request = validated(request)
    if not _is_auto(request) and (record := committed(path, request)) is not None:
        return record
    request = with_ready_device(request, _checked(request, path, WORKDIR))
    return _run_checked(request, path, progress)


def _run_checked(request: Request, path: Path, progress: Progress) -> Record:
    """Carry out a request whose device is known to work."""
    if (record := committed(path, request)) is not None:
        return record
    with installed(_checked(request, path, WORKDIR)), StageFolder(path, request) as stage:
        if (record := stage.record()) is None:
            try:
                record = _body(request)(request, stage, progress)
            except (BadInput, Denied):
                if stage.is_new:
                    stage.discard()
                raise
            stage.commit(record)
        return record


def _checked(request: Request, folder: Path, workdir: Path) -> Rules:
    """The rules that this stage keeps to, which allow it."""
    rules = given() or rules_for_request(find(workdir), request, folder)
    rules.check_request(request)
    return rules


def with_ready_device(request: Request, rules: Rules) -> Request:
    """The request with the device that it means on this machine, tried out; BadInput where that
    cannot be used."""
    device = getattr(request, "device", None)
    if device is None:
        return request
    with installed(rules):
        return msgspec.structs.replace(request, device=ready_device(device, "device"))


def _is_auto(request: Request) -> bool:
    """Whether only a look at the machine tells which device is meant."""
    return getattr(request, "device", None) == AUTO


def _body(request: Request) -> Any:
    """The function that does the work; its module is loaded now, for it may import LeRobot."""
    module = _BODIES.get(type(request), "lefleet.stages.collect")
    return getattr(import_module(module), module.rpartition(".")[2])


class Failure(Strict, frozen=True, kw_only=True):
    """How a stage that raised ended."""

    problem: str
    remedy: str
    exit_code: int
    is_killed: bool = False
    """A signal killed one of its children."""
    rule: str = ""
    """Field of the constitution that does not allow it, where one does not."""


def stage_argv(folder: Path) -> tuple[str, ...]:
    """The command line of a stage's process, on any machine."""
    return (sys.executable, "-m", "lefleet", "stage", "exec", str(folder))


def prepare(folder: Path) -> None:
    """Make a folder with a request ready for the next attempt."""
    (folder / FAILURE).unlink(missing_ok=True)
    ProgressWriter(folder)(Update.phase("starting the process"))


def start(folder: Path, *, detached: bool = False) -> "subprocess.Popen[bytes]":
    """Start the stage whose request lies in `folder`."""
    prepare(folder)
    with (folder / LOG).open("ab") as log:
        return launch(
            stage_argv(folder),
            stdout=log,
            stderr=log,
            environment={STAGE_MARK: str(folder)},
            detached=detached,
        )


def restart(folder: Path) -> Path | None:
    """Set the folder of a stage aside, so that the next call starts anew; where it is now, None
    where there was none. StageFailed where a process of it is still running."""
    if str(folder) in processes_marked(STAGE_MARK).values():
        raise in_use(folder)
    return set_aside(folder)


def run_in_child(
    request: Request,
    folder: Path,
    show: Callable[[StageProgress], None] = lambda _: None,
    workdir: Path = WORKDIR,
) -> Record:
    """As `run_stage`, in a child process whose output goes to the stage's log.

    `show` is called several times a second with the newest progress, even where it is the same: a
    person also wants to see that time passes. `workdir` is where the rules are looked for.
    """
    request = validated(request)
    if not _is_auto(request) and (record := committed(folder, request)) is not None:
        return record
    rules = _checked(request, folder, workdir)
    request = with_ready_device(request, rules)
    if (record := committed(folder, request)) is not None:
        return record
    with StageFolder(folder, request) as stage:
        pass
    before = oom_kills()
    with installed(rules):
        child = start(folder)
    try:
        while child.poll() is None:
            if (now := read_progress(folder)) is not None:
                show(now)
            time.sleep(POLL_S)
        code = child.wait()
    finally:
        stop(child)
    record = read_record(folder)
    if record is not None:
        return record
    failure = read_failure(folder, code, before)
    if stage.is_new and failure.exit_code in (BadInput.exit_code, Denied.exit_code):
        stage.discard()
    if isinstance(failure, StageFailed) and START_ANEW not in failure.remedy:
        remedy = f"{failure.remedy} Run the same command again to resume it, or {START_ANEW}"
        raise type(failure)(failure.problem, remedy.strip())
    raise failure


def read_failure(folder: Path, code: int, oom_kills_before: int) -> LeFleetError:
    """Why the stage in `folder` ended without a record, as it wrote or as its exit code says."""
    file = folder / FAILURE
    if file.exists():
        said: Failure = decode(file.read_bytes(), Failure, str(file))
        if said.exit_code == BadInput.exit_code:
            return BadInput(said.problem, said.remedy)
        if said.exit_code == Denied.exit_code:
            return Denied(said.rule, said.problem.removeprefix(f"{said.rule}: "), said.remedy)
        return (ChildKilled if said.is_killed else StageFailed)(said.problem, said.remedy)
    log = folder / LOG
    text = log.read_text(errors="replace") if log.exists() else ""
    remedy = f"Its log is {log}."
    return failure_of("The stage", code, oom_kills_before, split_lines(text), remedy, count=1)


def execute(folder: Path) -> int:
    """The child's side; returns its exit code."""
    request = decode((folder / REQUEST).read_bytes(), Request, str(folder / REQUEST))
    try:
        _run_checked(validated(request), folder, ProgressWriter(folder))
    except Outdated as error:
        # The folder is another attempt's now, and so is its failure.json.
        traceback.print_exc()
        return error.exit_code
    except LeFleetError as error:
        traceback.print_exc()
        return _fail(folder, error)
    except OSError as error:
        traceback.print_exc()
        where = f" ({error.filename})" if error.filename else ""
        remedy = "Check the disk's free space and the folder's permissions, then resume."
        return _fail(folder, StageFailed(f"{error.strerror or error}{where}.", remedy))
    return 0


def _fail(folder: Path, error: LeFleetError) -> int:
    """Write the failure to the folder, if the disk has room."""
    said = Failure(
        problem=error.problem,
        remedy=error.remedy,
        exit_code=error.exit_code,
        is_killed=isinstance(error, ChildKilled),
        rule=error.rule if isinstance(error, Denied) else "",
    )
    with contextlib.suppress(OSError):
        write_durably(folder / FAILURE, msgspec.json.encode(said))
    return error.exit_code
