"""What all pages share: the facts that they are drawn from, front matter, links and lessons."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from lefleet.knowledge.bundle import ABOUT, FOLDERS
from lefleet.knowledge.comparisons import Comparison, comparisons
from lefleet.knowledge.facts import ALL, Measurement, RunFacts
from lefleet.knowledge.front_matter import PageSource, PageStatus, PageType, moment
from lefleet.knowledge.lessons import CONTRADICTED, Lesson, detail, headline, lessons
from lefleet.knowledge.markup import (
    clean,
    counted,
    escape,
    interval,
    link,
    percent,
    slug,
)
from lefleet.ledger import ApprovalRow
from lefleet.records import AttemptCounts, CheckpointRecord, Rate

WORK = "../.."
"""From a page to the work folder."""
MOST_ROWS = 60
"""Of a table; the newest ones are shown."""


@dataclass(frozen=True)
class Known:
    """All runs of a ledger, and what they teach."""

    runs: Sequence[RunFacts]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        return comparisons(self.runs)

    @cached_property
    def lessons(self) -> list[Lesson]:
        return lessons(self.comparisons)

    @cached_property
    def times(self) -> dict[int, float]:
        """When each event happened, by its id."""
        return {event: at for run in self.runs for event, at in run.times.items()}

    def run(self, name: str) -> RunFacts | None:
        return next((one for one in self.runs if one.run == name), None)

    @cached_property
    def measured(self) -> list[Measurement]:
        """Of single tasks, oldest first."""
        found = [
            one
            for run in self.runs
            for cycle in run.cycles
            for task, one in cycle.measured.items()
            if task != ALL
        ]
        return sorted(found, key=lambda one: one.events)

    def tasks(self) -> list[str]:
        return list(dict.fromkeys(one.tasks[0] for one in self.measured))

    def policies(self) -> list[str]:
        return list(dict.fromkeys(one.policy for one in self.measured))


def page_path(kind: PageType, name: str) -> str:
    """Relative to the knowledge folder."""
    return f"{FOLDERS[kind]}/{slug(name)}.md"


def page_link(kind: PageType, name: str, text: str = "") -> str:
    """From any page to another one."""
    return link(text or name, f"../{page_path(kind, name)}")


def cycle_link(run: str, cycle: int, decision: str) -> str:
    """To what the page of a run tells of a cycle."""
    path = f"../{page_path('experiment', run)}"
    return link(f"{clean(run)}, cycle {cycle}", path, f"cycle-{cycle}-{decision}")


def where(one: Measurement) -> str:
    return cycle_link(one.run, one.cycle, one.decision)


def file_link(path: str, text: str = "") -> str:
    """To a file in the work folder."""
    return link(text or path, f"{WORK}/{path}")


def stage_path(run: str, cycle: int, stage: str) -> str:
    return f"{run}/cycle_{cycle}/{stage}"


def front(
    kind: PageType,
    name: str,
    told: Sequence[Lesson],
    provenance: Sequence[PageSource],
    known: Known,
    **further: Any,
) -> dict[str, Any]:
    """The fields of a page; `told` are its lessons."""
    newest = max(known.times[event] for one in provenance for event in one.events)
    return {
        "name": clean(name) or slug(name),
        "type": kind,
        "status": page_status(told),
        "updated": moment(newest),
        **further,
        "lessons": {one.id: one.status for one in told},
        "provenance": [
            {"run": one.run, "cycle": one.cycle, "events": list(one.events)} for one in provenance
        ],
    }


def page_status(told: Iterable[Lesson]) -> PageStatus:
    """A page is as doubtful as its most doubtful lesson, and replicated where one is."""
    statuses = {one.status for one in told}
    for status in ("contradicted", "replicated"):
        if status in statuses:
            return msgspec.convert(status, PageStatus)
    return "observed-once"


READ = f"How to read this: {link(ABOUT, f'../{ABOUT}')}"


def lesson_items(told: Sequence[Lesson], run: str = "") -> str:
    """Each lesson with its status, its evidence and its id; on the page of a run, what this run
    says comes instead of what the first one said."""
    if not told:
        return "Nothing yet: a lesson compares two checkpoints."
    items = []
    for one in told:
        own = next((pair for pair in one.comparisons if pair.after.run == run), None)
        said = (headline(own), detail(own)) if own else (one.headline, one.detail)
        items.append(f"**{escape(said[0])}**{escape(said[1], 2000)}")
        items += [
            f"  - {escape(line, 2000)}"
            for line in one.further
            if own is None or line.startswith(CONTRADICTED)
        ]
        cycles = ", ".join(dict.fromkeys(where(pair.after) for pair in one.comparisons))
        events = sorted({event for source in one.provenance for event in source.events})
        items.append(
            f"  - Status {one.status}; {cycles}; events {_short(events)}; lesson `{one.id}`"
        )
    return "\n".join(item if item.startswith("  ") else f"- {item}" for item in items)


def _short(events: list[int]) -> str:
    shown = ", ".join(map(str, events[:12]))
    return shown if len(events) <= 12 else f"{shown}, …"


def rate_words(rate: Rate) -> str:
    return f"{percent(rate.rate)} ({interval(rate.interval)})"


def data_words(one: Measurement) -> str:
    parts = ["?" if one.demonstrations is None else str(one.demonstrations)]
    parts += [f"{count} {method}" for method, count in sorted(one.made.items())]
    return " + ".join(parts)


def answer_words(row: ApprovalRow) -> str:
    """What was asked, and what a person said."""
    asked = escape(row.text)
    if row.answer is None:
        return f"waiting for an answer: {asked}"
    answer = row.answer
    said = "approved" if answer.approved else "rejected"
    why = f": “{escape(answer.why)}”" if answer.why else ""
    when = moment(answer.at)[:16].replace("T", " ")
    kind = row.kind.replace("_", " ")
    return f"{kind} {said} by {escape(answer.who)} on {when} UTC{why}. Asked: {asked}"


def start_words(checkpoint: CheckpointRecord) -> str:
    """What the training started from."""
    return f"from `{checkpoint.init_digest[:12]}`" if checkpoint.init_digest else "from scratch"


def attempts_words(tally: AttemptCounts) -> str:
    """Attempts are made in rounds, so not every one that was not kept has failed."""
    return f"{tally.attempted} attempts for {counted(tally.kept, 'demonstration')}"
