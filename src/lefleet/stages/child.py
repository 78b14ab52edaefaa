"""A stage as a process of its own: `lefleet stage exec FOLDER`.

The child reads the request from its folder, writes one JSON line on stdout for every bit of
progress and one for how it ended, and logs everything else to `log.txt`.
"""

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import IO

import msgspec

from lefleet.errors import BadInput, LeFleetError
from lefleet.process import launch, stop
from lefleet.records import Record, Request, decode, validated
from lefleet.records.border import Strict
from lefleet.stages.folder import REQUEST, StageFolder, read_record
from lefleet.stages.progress import Progress, Update
from lefleet.stages.run import run_stage
from lefleet.stages.train_log import last_words, split_lines


class Reported(Strict, frozen=True, kw_only=True, tag=True):
    """Progress."""

    done: int
    total: int
    unit: str
    detail: str


class Failed(Strict, frozen=True, kw_only=True, tag=True):
    """The end of a stage that raised."""

    problem: str
    remedy: str
    exit_code: int


def run_in_child(request: Request, folder: Path, progress: Progress) -> Record:
    """As `run_stage`, in a child process whose chatter goes to the stage's log."""
    request = validated(request)
    with StageFolder(folder, request) as stage:
        record = stage.record()
    if record is not None:
        return record
    log_path = stage.log
    argv = (sys.executable, "-m", "lefleet", "stage", "exec", str(folder))
    with log_path.open("ab") as log:
        child = launch(argv, stdout=subprocess.PIPE, stderr=log)
    try:
        failure = _listen(child, progress)
        code = child.wait()
    finally:
        stop(child)
    record = read_record(folder)
    if record is not None:
        return record
    failure = failure or _crash(code, log_path)
    if stage.is_new and failure.exit_code == BadInput.exit_code:
        stage.discard()
    raise failure


def execute(folder: Path) -> int:
    """The child's side; returns its exit code."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = decode((folder / REQUEST).read_bytes(), Request, str(folder / REQUEST))

    def report(update: Update) -> None:
        _say(answers, Reported(**update._asdict()))

    try:
        run_stage(request, folder, report)
    except LeFleetError as error:
        traceback.print_exc()
        _say(
            answers,
            Failed(problem=error.problem, remedy=error.remedy, exit_code=error.exit_code),
        )
        return error.exit_code
    return 0


def _say(answers: IO[bytes], line: Strict) -> None:
    answers.write(msgspec.json.encode(line) + b"\n")
    answers.flush()


def _listen(child: "subprocess.Popen[bytes]", progress: Progress) -> LeFleetError | None:
    """Pass progress on until the child closes its stdout; returns the error that it reported."""
    failure = None
    for line in child.stdout or ():
        match msgspec.json.decode(line, type=Reported | Failed):
            case Reported() as said:
                progress(Update(said.done, said.total, said.unit, said.detail))
            case Failed() as said:
                failure = LeFleetError(said.problem, said.remedy)
                failure.exit_code = said.exit_code
    return failure


def _crash(code: int, log: Path) -> LeFleetError:
    words = last_words(split_lines(log.read_text(errors="replace")), count=1)
    return LeFleetError(
        f"The stage ended with code {code}: {words or 'it said nothing'}.",
        f"Its log is {log}. Run the same command again to go on.",
    )
