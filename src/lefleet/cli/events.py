"""Events of a run as lines for a person; all of them, with all their data, are in events.jsonl."""

from collections.abc import Callable
from typing import Any

from lefleet.cli.output import printable
from lefleet.ledger import EventRow

type _Data = dict[str, Any]


def event_text(run: str, event: EventRow) -> str:
    """One line; empty for an event that is only for programs."""
    words = _WORDS.get(event.kind)
    text = words(event.data) if words is not None else ""
    where = f"{run} · cycle {event.data['cycle']}" if "cycle" in event.data else run
    return printable(f"{where}: {text}") if text else ""


def _failed(how: str) -> Callable[[_Data], str]:
    return lambda data: f"{data['stage']} {how}: {data['error']}"


def _budgets(data: _Data) -> str:
    changes = (f"{name} {was} → {now}" for name, (was, now) in data["budgets"].items())
    return f"budgets changed: {', '.join(changes)}"


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
    "run_created": lambda data: f"starts from {data['origin']}" if "origin" in data else "",
    "run_resumed": lambda _: "run resumed",
    "stop_requested": lambda _: "stop requested",
    "budgets_changed": _budgets,
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
        f"goes on under another constitution, digest {data['digest'][:12]}"
    ),
    "knowledge_failed": lambda data: f"knowledge pages could not be written: {data['error']}",
    "notify_failed": lambda data: f"nobody could be told: {data['error']}",
}
