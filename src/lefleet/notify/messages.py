"""Which events people are told of, and in what words: pure functions."""

import hashlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lefleet.ledger import ApprovalRow, EventRow, RunRow
from lefleet.records import Decision, NotifyKind
from lefleet.records.border import Strict

EVENTS: dict[NotifyKind, tuple[str, ...]] = {
    "approval": ("approval_needed",),
    "promotion": ("decision",),
    "failure": ("run_failed", "run_denied", "stage_skipped"),
    "end": ("run_finished", "run_stopped"),
}
"""Events that a message may tell of, by its kind."""
BLESSING = ("promote", "baseline")
_MOST_CHARACTERS = 600


class Notice(NamedTuple):
    """What an event is worth telling."""

    kind: NotifyKind
    text: str
    """One line."""


class NotifyMessage(Strict, frozen=True, kw_only=True):
    """What a command or a webhook gets, as JSON."""

    id: str
    """The same whenever this message is sent again, so that a receiver can drop repeats."""
    run: str
    kind: NotifyKind
    text: str
    cycle: int | None
    """None where it is about the whole run."""
    at: float
    """When it happened, in seconds since 1970."""
    commands: tuple[str, ...]
    """What a person can answer with."""
    evidence: str
    """What the decision or the question is based on, or what was decided last; empty where there
    is nothing to add."""


def notice(run: str, event: EventRow) -> Notice | None:
    """What to tell people of an event; None where it is of no interest to them."""
    data = event.data
    match event.kind:
        case "approval_needed":
            return Notice("approval", one_line(f"{run} waits for a person to {data['text']}"))
        case "decision" if data["decision"] in BLESSING:
            decided = f"{run}, cycle {data['cycle']}: {data['decision']}: {data['why']}"
            return Notice("promotion", one_line(decided))
        case "run_failed" | "run_denied" | "run_finished" | "run_stopped":
            state = event.kind.removeprefix("run_")
            kind: NotifyKind = "failure" if event.kind in EVENTS["failure"] else "end"
            return Notice(kind, one_line(f"{run} {_ENDS[state]}: {data['reason']}"))
        case "stage_skipped":
            given_up = f"{run} goes on without {data['stage']} of cycle {data['cycle']}"
            return Notice("failure", one_line(f"{given_up}: {data['error']}"))
    return None


_ENDS = {
    "failed": "failed",
    "denied": "was stopped by its constitution",
    "finished": "is finished",
    "stopped": "was stopped",
}


def message(
    row: RunRow,
    event: EventRow,
    workdir: Path,
    decisions: Sequence[Decision],
    approvals: Sequence[ApprovalRow],
) -> NotifyMessage:
    """The whole message about an event of which there is a notice."""
    told = notice(row.id, event)
    if told is None:
        raise ValueError(f"event {event.id} is nothing to tell people of")
    return NotifyMessage(
        id=_message_id(row, event),
        run=row.id,
        kind=told.kind,
        text=told.text,
        cycle=event.data.get("cycle"),
        at=round(event.at, 3),
        commands=_commands(event, row.id, workdir),
        evidence=one_line(_evidence(event, decisions, approvals)),
    )


def _message_id(row: RunRow, event: EventRow) -> str:
    """Of one event of one run of one ledger: runs of other work folders may have its name."""
    content = f"{row.id} {row.created_at!r} {event.id} {event.at!r}"
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _commands(event: EventRow, run: str, workdir: Path) -> tuple[str, ...]:
    verbs = {
        "approval_needed": (
            f"approve {run} --question={event.data.get('approval')}",
            f"reject {run} --question={event.data.get('approval')} --why '…'",
        ),
        "run_failed": (f"resume {run}",),
        "run_stopped": (f"resume {run}",),
    }
    home = Path.home()
    where = shlex.quote(str(workdir))
    if workdir.is_relative_to(home) and workdir != home:
        # A shell expands ~ only outside quotes.
        where = f"~/{shlex.quote(str(workdir.relative_to(home)))}"
    return tuple(
        f"lefleet {verb} --workdir {where}" for verb in verbs.get(event.kind, (f"status {run}",))
    )


def _evidence(
    event: EventRow, decisions: Sequence[Decision], approvals: Sequence[ApprovalRow]
) -> str:
    if event.kind == "decision":
        return str(event.data["why"])
    if event.kind == "approval_needed":
        asked = next(one for one in approvals if one.id == event.data["approval"])
        decision = asked.evidence.get("decision", {})
        return str(decision.get("why", asked.text))
    if event.kind.startswith("run_") and decisions:
        last = decisions[-1]
        return f"cycle {last.cycle}: {last.decision}: {last.why}"
    return ""


def one_line(text: str) -> str:
    """Without line breaks, control characters and the user's home folder, and not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    line = re.sub(rf"(?<![\w.~-]){re.escape(str(Path.home()))}(?=/)", "~", line)
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
