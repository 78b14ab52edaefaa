"""try: a policy server and simulated robots in one command, watched and filmed."""

import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import IO

import msgspec

from lefleet.cli.checkpoints import choose_checkpoint
from lefleet.cli.commands import TryCommand
from lefleet.cli.output import print_json
from lefleet.cli.parse import absolute
from lefleet.cli.signals import StopSignals
from lefleet.cli.trial_view import show_summary, show_trial
from lefleet.constitution import Grants, find, installed, rules_for_grants
from lefleet.durable import write_durably
from lefleet.errors import BadInput, Denied, LeFleetError, StageFailed
from lefleet.process import exit_words, oom_kills
from lefleet.records import encode, validated
from lefleet.sim.tasks import resolve_tasks
from lefleet.trial.members import Member, listen
from lefleet.trial.messages import TrialFailure, TrialMessage, TrialRequest
from lefleet.trial.status import TrialStatus

SUMMARY = "summary.json"
_HOST = "lefleet.trial.host"
_LOOK_S = 0.1
_END_S = 20.0
"""For robots to disconnect and the server to drain, after a signal."""
_INTERRUPTED = 130


def try_checkpoint(command: TryCommand) -> int:
    """Run the trial, show it, print its summary."""
    options = validated(command.options)
    if options.task:
        resolve_tasks(options.task)
    found = choose_checkpoint(command.checkpoint, command.workdir, "checkpoint")
    out = _out(command)
    request = TrialRequest(
        **msgspec.structs.asdict(options), checkpoint=found.location, out=str(out)
    )
    status = TrialStatus(request, found.name)
    own = Grants(folders=(str(out),), checkpoints=(found.location,))
    rules = rules_for_grants(find(absolute(command.workdir, "workdir")), own)
    rules.check_served(found.location)
    rules.check_tasks(options.task)
    with installed(rules):
        is_finished = _watch(status, as_lines=command.json)
    if not status.robots:
        print("lefleet: interrupted.", file=sys.stderr)
        return _INTERRUPTED
    summary = status.summary(is_interrupted=not is_finished)
    write_durably(out / SUMMARY, encode(summary))
    if command.json:
        print_json(summary)
    else:
        show_summary(summary)
    return 0 if is_finished else _INTERRUPTED


def _out(command: TryCommand) -> Path:
    now = datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S")
    out = absolute(command.out or absolute(command.workdir, "workdir") / "try" / now, "out")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"out: {out} is not an empty folder.", "Choose another one.")
    return out


def _watch(status: TrialStatus, *, as_lines: bool) -> bool:
    """Show the trial until it ends or a signal comes; whether it ended by itself."""
    before = oom_kills()
    with StopSignals() as signals, tempfile.TemporaryFile() as said:
        signals.hold()
        host = Member("host", _HOST, said)
        host.tell(status.request)
        try:
            with show_trial(as_lines=as_lines) as show:
                show(status, [])
                while not host.is_silent:
                    if signals.wait(0):
                        return False
                    news = [_message(line) for _, line in listen([host], _LOOK_S)]
                    for message in news:
                        status.take(message)
                    show(status, news)
        finally:
            host.stop(_END_S)
    _require_success(host, said, before)
    return True


def _message(line: bytes) -> TrialMessage:
    message = msgspec.json.decode(line, type=TrialMessage)
    if isinstance(message, TrialFailure):
        if message.exit_code == Denied.exit_code:
            rule, _, reason = message.problem.partition(": ")
            raise Denied(rule, reason, message.remedy)
        kind = BadInput if message.exit_code == BadInput.exit_code else LeFleetError
        raise kind(message.problem, message.remedy)
    return message


def _require_success(host: Member, said: IO[bytes], oom_kills_before: int) -> None:
    """The host says itself what went wrong, unless it was killed or crashed."""
    if code := host.process.wait():
        said.seek(0)
        last = (said.read().decode(errors="replace").strip().splitlines() or [""])[-1]
        raise StageFailed(
            f"The process that starts server and robots {exit_words(code, oom_kills_before)}.", last
        )
