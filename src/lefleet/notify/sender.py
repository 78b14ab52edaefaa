"""`lefleet notify exec WORKDIR RUN`: the process that sends a run's pending messages, and exits."""

import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from lefleet.errors import BadInput, Denied, LeFleetError
from lefleet.ledger import Ledger, RunRow, open_ledger
from lefleet.ledger.notifications import NotificationRow
from lefleet.notify.address import expand
from lefleet.notify.channels import NotSent, post, run_command
from lefleet.notify.messages import NotifyMessage, message
from lefleet.process.errand import do_errand
from lefleet.records import NotifyPlan

LOCK = ".notify.lock"
"""In the folder of a run: held by its sender, whose process id is its content."""
LOG = "notify.log"
MAX_TRIES = 12
FIRST_WAIT_S = 1.0
MAX_WAIT_S = 600.0
_LOG_BYTES = 256 * 1024


class Channel(NamedTuple):
    """One way to send."""

    name: str
    send: Callable[[NotifyMessage], bytes]
    """Returns what a command printed. Raises NotSent where another try may help, BadInput or
    Denied where none will."""


def send_pending(workdir: Path, run: str) -> int:
    """Send all that is pending; the exit code. Returns at once where another process does it."""
    folder = workdir / run
    try:
        with closing(open_ledger(workdir, create=False, migrate=False)) as ledger:
            row = ledger.run(run)
            if row is None:
                raise BadInput(f"run: there is no run called {run} in {workdir}.")
            plan = msgspec.convert(row.corrected_config.get("notify", {}), NotifyPlan)
            do_errand(
                folder / LOCK,
                lambda: _pending(ledger, run),
                lambda: Sender(ledger, row, folder, channels(plan, folder)).run(),
            )
    except (LeFleetError, OSError, msgspec.ValidationError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def channels(plan: NotifyPlan, folder: Path) -> list[Channel]:
    """The ways of a plan."""

    def command(told: NotifyMessage) -> bytes:
        return run_command(plan.command, msgspec.json.encode(told), told.id, folder)

    def webhook(told: NotifyMessage) -> bytes:
        post(expand(plan.webhook, os.environ), msgspec.json.encode(told))
        return b""

    ways = (
        (plan.command, Channel("command", command)),
        (plan.webhook, Channel("webhook", webhook)),
    )
    return [channel for is_wanted, channel in ways if is_wanted]


class Sender:
    """Sends the pending messages of one run in their order, over each channel by itself: one that
    fails does not delay the others. Single-threaded.

    What it keeps in memory is which channels have done their part of a message that is still
    pending. Where it is killed, the next sender sends that message over all of them again.
    """

    def __init__(self, ledger: Ledger, row: RunRow, folder: Path, channels: list[Channel]) -> None:
        self._ledger = ledger
        self._row = row
        self._folder = folder
        self._channels = channels
        self._errors: dict[int, dict[str, str]] = {}
        """By message, what came of it on each channel that is done with it; empty: sent."""
        self._tries: dict[tuple[int, str], int] = {}
        self._not_before = dict.fromkeys((one.name for one in channels), 0.0)

    def run(self) -> None:
        """Until nothing is pending."""
        while rows := _pending(self._ledger, self._row.id):
            next_ones = [
                (self._not_before[channel.name], number, row)
                for number, channel in enumerate(self._channels)
                if (row := self._first(rows, channel.name)) is not None
            ]
            at, number, row = min(next_ones, key=lambda one: one[:2])
            if (left := at - time.monotonic()) > 0:
                # New messages are looked for meanwhile: another channel may be free for them.
                time.sleep(min(left, 1.0) if len(self._channels) > 1 else left)
                continue
            self._try(self._channels[number], row)

    def _first(self, rows: list[NotificationRow], channel: str) -> NotificationRow | None:
        return next((row for row in rows if channel not in self._errors.get(row.id, {})), None)

    def _try(self, channel: Channel, row: NotificationRow) -> None:
        for one in self._channels:
            self._tries.setdefault((row.id, one.name), row.tries)
        tries = self._tries[row.id, channel.name] + 1
        if tries > MAX_TRIES:
            self._settle(channel, row, row.error or "every sender was killed")
            return
        self._tries[row.id, channel.name] = tries
        # Before it is sent, so that a message that kills its sender is given up some day.
        self._ledger.notifications.update(row.id, "pending", max(tries, row.tries), row.error)
        try:
            output = channel.send(self._message(row))
        except (BadInput, Denied) as error:
            self._settle(channel, row, str(error))
        except NotSent as error:
            self._log(row, f"{channel.name}, try {tries}: {error}", error.output)
            if tries >= MAX_TRIES:
                self._settle(channel, row, str(error))
                return
            self._ledger.notifications.update(row.id, "pending", max(tries, row.tries), str(error))
            wait_s = backoff_s(tries, random.random())
            self._not_before[channel.name] = time.monotonic() + wait_s
        else:
            self._log(row, f"{channel.name}, try {tries}: sent", output)
            self._settle(channel, row, "")

    def _message(self, row: NotificationRow) -> NotifyMessage:
        run = self._row.id
        (event,) = self._ledger.events(run, after=row.event - 1, limit=1)
        decisions, approvals = self._ledger.decisions(run), self._ledger.approvals.all(run)
        return message(self._row, event, self._folder.parent, decisions, approvals)

    def _settle(self, channel: Channel, row: NotificationRow, error: str) -> None:
        """One channel is done with a message; the last one closes it."""
        self._not_before[channel.name] = 0.0
        errors = self._errors.setdefault(row.id, {})
        errors[channel.name] = error
        if len(errors) < len(self._channels):
            return
        tries = max(self._tries[row.id, one] for one in errors)
        problem = " ".join(error for error in errors.values() if error)
        self._ledger.notifications.update(row.id, "failed" if problem else "sent", tries, problem)
        if problem:
            self._log(row, f"given up: {problem}")
            data = {"notification": row.id, "kind_of_notification": row.kind, "error": problem}
            self._ledger.add_event(self._row.id, "notify_failed", data)

    def _log(self, row: NotificationRow, text: str, output: bytes = b"") -> None:
        """A line, and the output of a command below it. The file keeps its newer half where it
        becomes too large."""
        path = self._folder / LOG
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            newer = path.read_bytes()[-_LOG_BYTES // 2 :]
            path.write_bytes(newer.partition(b"\n")[2])
        lines = [f"{time.strftime('%Y-%m-%d %H:%M:%S')} {row.kind} {row.id}: {text}"]
        lines += [f"    {line}" for line in output.decode(errors="replace").splitlines()]
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


def backoff_s(tries: int, chance: float) -> float:
    """How long to wait after so many tries: 1 s, 2 s, 4 s, …, at most 10 minutes, and of that half
    up to all by `chance`, so that many senders do not come back together."""
    longest = min(FIRST_WAIT_S * 2.0 ** (tries - 1), MAX_WAIT_S)
    return longest * (0.5 + 0.5 * chance)


def _pending(ledger: Ledger, run: str) -> list[NotificationRow]:
    return [row for row in ledger.notifications.all(run) if row.state == "pending"]
