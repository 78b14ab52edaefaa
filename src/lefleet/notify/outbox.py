"""Turn what happened in a run into messages that are pending, and see that a process sends them."""

import logging
import sys
from pathlib import Path

from lefleet.errors import LeFleetError
from lefleet.ledger import Ledger
from lefleet.notify.messages import EVENTS, notice
from lefleet.notify.sender import LOCK, LOG
from lefleet.process.errand import see_to_errand
from lefleet.records import NotifyPlan

_LOGGER = logging.getLogger(__name__)


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
    folder = workdir / run
    argv = (sys.executable, "-m", "lefleet", "notify", "exec", str(workdir), run)
    see_to_errand(argv, folder / LOCK, folder / LOG)
