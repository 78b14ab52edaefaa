"""Tell people what a run came to: a command of theirs, a webhook, or both.

    messages   which events people are told of, and in what words; pure
    outbox     events to messages that are pending, and a process that sends them
    sender     that process: sends what is pending, again and again until it is sent or given up
    channels   the two ways to send: a program of the user's, and an HTTP request
    address    where a webhook is, with secrets that only the environment has

Imports `errors`, `records`, `process` and `ledger`; `loop` calls `notify_new`, `cli` starts the
sender. Events come from the ledger, messages and what became of them are kept there. A run never
waits for any of this: sending happens in a process of its own, which outlives the controller.
"""

from lefleet.notify.address import require_sendable
from lefleet.notify.outbox import notify_new

__all__ = ["notify_new", "require_sendable"]
