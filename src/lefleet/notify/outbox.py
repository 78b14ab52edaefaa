"""Turn what happened in a run into messages that are pending, and see that a process sends them."""

import logging
import subprocess
import sys
from pathlib import Path

from lefleet.errors import LeFleetError
from lefleet.ledger import Ledger
from lefleet.notify.messages import EVENTS, notice
from lefleet.notify.sender import LOCK, LOG, lock_holder
from lefleet.process import is_held, launch
from lefleet.records import NotifyPlan

_LOGGER = logging.getLogger(__name__)
_started: dict[Path, "subprocess.Popen[bytes]"] = {}
"""The newest sender that this process has started, by the folder of the run."""
_older: list["subprocess.Popen[bytes]"] = []
"""Senders that had nothing left to do when another was started: their exit codes are collected."""


def notify_new(ledger: Ledger, workdir: Path, run: str, plan: NotifyPlan) -> None:
    """Tell people of all events that they were not told of yet. Returns at once.

    It is cheap where nothing has happened. What keeps it from its work is a warning: a run does
    not fail because nobody could be told, and the next call tries again.
    """
    if not plan.command and not plan.webhook:
        return
    try:
        kinds = [event for kind in plan.on for event in EVENTS[kind]]
        for event in ledger.notifications.events_without(run, kinds):
            if (told := notice(run, event)) is not None:
                ledger.notifications.add(run, event.id, told.kind, told.text)
        if any(row.state == "pending" for row in ledger.notifications.all(run)):
            _see_to_sender(workdir, run)
    except (LeFleetError, OSError) as error:
        _LOGGER.warning("Nobody can be told of %s: %s", run, error)


def _see_to_sender(workdir: Path, run: str) -> None:
    """Start a sender unless there is one that has yet to look for pending messages.

    A sender that holds the lock looks once more after it has let go of it. One that has just been
    started has not written its id into the lock yet.
    """
    folder = workdir / run
    _older[:] = [child for child in _older if child.poll() is None]
    if is_held(folder / LOCK):
        return
    child = _started.get(folder)
    if child is not None and child.poll() is None:
        if lock_holder(folder) != child.pid:
            return
        _older.append(child)
    argv = (sys.executable, "-m", "lefleet", "notify", "exec", str(workdir), run)
    with (folder / LOG).open("ab") as log:
        _started[folder] = launch(argv, stdout=log, stderr=log, detached=True, may_fork=False)
