"""What happened in a run: events as lines for a person, newest first, paged and filtered.

All of them, with all their data, are in events.jsonl.
"""

from collections.abc import Callable
from typing import Any, Literal

from lefleet.ledger import EventRow, Ledger
from lefleet.loop.runs import find
from lefleet.queries.paging import checked
from lefleet.records.border import Strict

type _Data = dict[str, Any]
EventGroup = Literal["all", "decisions", "people", "stages", "problems"]
_GROUPS: dict[EventGroup, tuple[str, ...]] = {
    "all": (),
    "decisions": ("proposal", "decision"),
    "people": (
        *("approval_needed", "approved", "rejected", "stop_requested", "run_created"),
        *("run_resumed", "budgets_changed", "config_changed", "constitution_changed"),
    ),
    "stages": (
        *("stage_started", "stage_committed", "stage_cancelled", "stage_skipped"),
        *("stage_begins_anew", "stage_waits"),
    ),
    "problems": (
        *("stage_failed", "stage_killed", "stage_gone", "run_failed", "run_denied", "denied"),
        *("proposal_denied", "model_unused", "knowledge_failed", "notify_failed"),
        "track_failed",
    ),
}


class EventLine(Strict, frozen=True, kw_only=True):
    """One event."""

    id: int
    at: float
    """Seconds since 1970."""
    kind: str
    cycle: int | None
    text: str
    """For a person."""
    is_problem: bool


class EventPage(Strict, frozen=True, kw_only=True):
    """Events, newest first."""

    items: tuple[EventLine, ...]
    next_before: int | None
    """`before` of the next page; None on the last one."""


def events(
    ledger: Ledger,
    run: str,
    *,
    before: int | None = None,
    group: EventGroup = "all",
    limit: int = 50,
) -> EventPage:
    """Events of a run with an id below `before`. Unknown: there is no such run."""
    _, limit = checked(0, limit)
    run = find(ledger, run).id
    rows = ledger.feed.recent(run, before=before, kinds=_GROUPS[group], limit=limit + 1)
    more = len(rows) > limit
    shown = rows[:limit]
    return EventPage(
        items=tuple(_line(row) for row in shown),
        next_before=shown[-1].id if more else None,
    )


def _line(event: EventRow) -> EventLine:
    return EventLine(
        id=event.id,
        at=event.at,
        kind=event.kind,
        cycle=event.data.get("cycle"),
        text=_text(event) or _plain(event),
        is_problem=event.kind in _GROUPS["problems"],
    )


def _plain(event: EventRow) -> str:
    """Of an event that terminals do not show."""
    if event.kind == "stage_started":
        attempt = event.data["attempt"]
        return f"{event.data['stage']} started" + (f", attempt {attempt}" if attempt > 1 else "")
    return event.kind.replace("_", " ")


def event_text(run: str, event: EventRow) -> str:
    """One line with run and cycle in front; empty for an event that is only for programs."""
    text = _text(event)
    where = f"{run} · cycle {event.data['cycle']}" if "cycle" in event.data else run
    return f"{where}: {text}" if text else ""


def _text(event: EventRow) -> str:
    words = _WORDS.get(event.kind)
    return words(event.data) if words is not None else ""


def _failed(how: str) -> Callable[[_Data], str]:
    return lambda data: f"{data['stage']} {how}: {data['error']}"


def _budgets(data: _Data) -> str:
    changes = (f"{name} {was} → {now}" for name, (was, now) in data["budgets"].items())
    return f"budgets changed: {', '.join(changes)}"


def _config(data: _Data) -> str:
    changes = (f"{name} {was!r} → {now!r}" for name, (was, now) in data["fields"].items())
    return f"config changed{_by(data)}: {', '.join(changes)}"


def _created(data: _Data) -> str:
    """Empty where there is nothing to tell but that it began."""
    origin = f"starts from {data['origin']}" if "origin" in data else ""
    person = f"begun{_by(data)}" if _by(data) else ""
    return ", ".join(one for one in (origin, person) if one)


def _by(data: _Data) -> str:
    return f" by {data['by']}" if data.get("by") else ""


def _denied(what: str) -> Callable[[_Data], str]:
    return lambda data: (
        f"{what} by the constitution: {data['rule']}: {data['reason']} {data['remedy']}".strip()
    )


def _answered(how: str) -> Callable[[_Data], str]:
    return lambda data: (
        f"{data['kind_of_approval']} {how} by {data['who']}{': ' if data['why'] else ''}"
        f"{data['why']}"
    )


_WORDS: dict[str, Callable[[_Data], str]] = {
    "run_created": _created,
    "run_resumed": lambda data: f"run resumed{_by(data)}",
    "stop_requested": lambda data: f"stop requested{_by(data)}",
    "budgets_changed": _budgets,
    "config_changed": _config,
    "stage_begins_anew": lambda data: (
        f"{data['stage']} begins anew with the changed config; what it did before is in "
        f"{data['kept']}"
    ),
    "stage_waits": lambda data: f"{data['stage']}: {data['what']}",
    "stage_committed": lambda data: f"{data['stage']} done",
    "stage_failed": _failed("failed"),
    "stage_killed": _failed("killed"),
    "stage_gone": _failed("gone"),
    "stage_cancelled": _failed("cancelled"),
    "stage_skipped": _failed("skipped"),
    "proposal": lambda data: data["why"],
    "model_unused": lambda data: f"{data['source']} proposed nothing usable: {data['reason']}",
    "proposal_denied": _denied("proposal denied"),
    "decision": lambda data: f"{data['decision'].upper()}: {data['why']}",
    "approval_needed": lambda data: f"a person is asked to {data['text']}",
    "approved": _answered("approved"),
    "rejected": _answered("rejected"),
    "denied": _denied("DENIED"),
    "constitution_changed": lambda data: (
        f"continues under another constitution, digest {data['digest'][:12]}"
    ),
    "knowledge_failed": lambda data: f"knowledge pages could not be written: {data['error']}",
    "notify_failed": lambda data: f"nobody could be told: {data['error']}",
    "track_failed": lambda data: f"not logged to {data['tracker']}: {data['error']}",
}
