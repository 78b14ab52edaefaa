"""Every run in a line: its state, what it waits for, best success, budgets, and whom it needs.

`RunReader` remembers what it has read of each run until the run's next event: a state changes only
with one, and is expensive to read.
"""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec

from lefleet.errors import BadInput
from lefleet.ledger import Ledger, RunRow
from lefleet.ledger.rows import RunHead
from lefleet.loop.activity import is_interrupted
from lefleet.loop.runs import find, is_controlled
from lefleet.loop.state import RunState, read_state
from lefleet.loop.steps import place_of
from lefleet.queries.paging import DEFAULT_LIMIT, checked
from lefleet.queries.status import BudgetUse, RunStatus, RunWord, status_of
from lefleet.records.border import Strict

NEEDS_A_PERSON: tuple[RunWord, ...] = ("waiting", "failed", "denied", "interrupted", "unreadable")
type _Moment = tuple[int, float]
"""Id and time of the newest event of a run: another ledger in the same place has other times."""
type _Remembered = tuple[_Moment, RunRow, RunState | BadInput]
_REMEMBERED = 256
"""Runs whose state is kept in memory."""


class RunCard(Strict, frozen=True, kw_only=True):
    """One run in a line."""

    id: str
    state: RunWord
    needs_person: bool
    headline: str
    """What it is doing, what it waits for, or how it ended: one sentence."""
    created_at: float
    changed_at: float
    """When its newest event happened."""
    elapsed_s: float | None
    origin: str | None
    cycle: int | None
    """The current or last one; None where this lefleet cannot read the run."""
    cycles: int
    """All that its budget allows; 0 where that is not known."""
    stage: str
    """Empty between two stages."""
    progress: float | None
    """Of the stage, from 0 to 1, where it can be counted."""
    success_rate: float | None
    """Of the blessed checkpoint in its fixed block."""
    interval: tuple[float, float] | None
    blessed: str | None
    budgets: dict[str, BudgetUse]
    last_decision: str | None


class RunList(Strict, frozen=True, kw_only=True):
    """Runs that need a person first, then running ones, then the others, each newest first."""

    items: tuple[RunCard, ...]
    total: int
    """Runs of this state, or of all."""
    offset: int
    needing_person: int
    running: int
    ended: int


class RunReading(NamedTuple):
    """One run as the ledger and its folder have it at this moment."""

    row: RunRow
    is_controlled: bool
    status: RunStatus
    state: RunState | None
    """None where this lefleet cannot read it."""
    changed_at: float

    def place(self) -> tuple[int, str] | None:
        """The cycle and the step that the run is at, or that its end left it at. None where this
        lefleet cannot read it."""
        if self.state is None:
            return None
        if self.status.now is not None:
            return self.status.now.cycle, self.status.now.stage
        if self.status.word == "finished":
            return self.state.current.index, ""
        return place_of(self.state)


class RunReader:
    """Reads runs of one work folder. Safe to use from several threads; one lock guards what it
    remembers, and is not held while it reads."""

    def __init__(self, ledger: Callable[[], Ledger], workdir: Path) -> None:
        """`ledger` is called at each use: where there was none, there may be one by now."""
        self._ledger = ledger
        self.workdir = workdir
        self._lock = Lock()
        self._remembered: OrderedDict[str, tuple[_Moment, RunRow, RunState | BadInput]] = (
            OrderedDict()
        )

    @property
    def ledger(self) -> Ledger:
        return self._ledger()

    def runs(self, *, state: str = "", offset: int = 0, limit: int = DEFAULT_LIMIT) -> RunList:
        """Runs of a state as `RunCard` has it, or all of them."""
        offset, limit = checked(offset, limit)
        words = [(head.id, self._word(head)) for head in self.ledger.run_heads()]
        chosen = [run for run, word in _in_order(words) if state in ("", word)]
        count = {one: sum(word == one for _, word in words) for one in dict(words).values()}
        needing = sum(count.get(one, 0) for one in NEEDS_A_PERSON)
        facts = self._facts(chosen[offset : offset + limit])
        return RunList(
            items=tuple(card(one) for one in facts),
            total=len(chosen),
            offset=offset,
            needing_person=needing,
            running=count.get("running", 0),
            ended=len(words) - needing - count.get("running", 0),
        )

    def facts(self, run: str) -> RunReading:
        """One run; BadInput where there is none of that name."""
        find(self.ledger, run)
        return self._facts([run])[0]

    def status(self, run: str) -> RunStatus:
        return self.facts(run).status

    def _facts(self, runs: list[str]) -> list[RunReading]:
        newest = self.ledger.feed.newest_by_run(runs)
        found = []
        for run in runs:
            last = newest.get(run)
            moment = (last.id, last.at) if last else (0, 0.0)
            row, state = self._read(run, moment)
            host = self.ledger.controllers.host(run)
            status = status_of(row, state, self.workdir / run, host)
            known = state if isinstance(state, RunState) else None
            found.append(RunReading(row, status.controlled, status, known, moment[1]))
        return found

    def _read(self, run: str, moment: _Moment) -> tuple[RunRow, RunState | BadInput]:
        with self._lock:
            known = self._remembered.get(run)
            if known is not None and known[0] == moment:
                self._remembered.move_to_end(run)
                return known[1], known[2]
        row = find(self.ledger, run)
        state: RunState | BadInput
        try:
            state = read_state(self.ledger, row)
        except BadInput as error:
            state = error
        with self._lock:
            self._remembered[run] = moment, row, state
            while len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)
        return row, state

    def _word(self, head: RunHead) -> RunWord:
        """Without reading the run: one that cannot be read has the state of the ledger."""
        if head.state == "running" and is_interrupted(
            head, is_controlled=is_controlled(self.ledger, head.id)
        ):
            return "interrupted"
        return msgspec.convert(head.state, RunWord)


def card(facts: RunReading) -> RunCard:
    """A run in a line."""
    status, now = facts.status, facts.status.now
    best = status.best()
    progress = now.progress if now else None
    place = facts.place()
    budget = status.budgets.get("cycles")
    decided = [one.decision for one in status.cycles if one.decision]
    return RunCard(
        id=status.id,
        state=status.word,
        needs_person=status.word in NEEDS_A_PERSON,
        headline=_headline(status),
        created_at=facts.row.created_at,
        changed_at=facts.changed_at,
        elapsed_s=status.elapsed_s,
        origin=status.origin,
        cycle=place[0] if place else None,
        cycles=int(budget.limit) if budget else 0,
        stage=now.stage if now else "",
        progress=progress.done / progress.total if progress and progress.total else None,
        success_rate=best.success_rate if best else None,
        interval=best.interval if best else None,
        blessed=status.blessed,
        budgets=status.budgets,
        last_decision=decided[-1] if decided else None,
    )


def _headline(status: RunStatus) -> str:
    now = status.now
    match status.word:
        case "unreadable":
            return status.problem
        case "waiting":
            asked = status.open_approval()
            return f"asks whether to {asked.text}" if asked else "was answered; resume it"
        case "interrupted":
            return "has no running controller: its machine or its process went down"
        case "running" if now is not None:
            what = f"{now.stage}: {now.text()}" if now.stage else now.text()
            return what if now.wait is None else f"waits for {now.wait.what}"
        case _:
            return status.reason


def _in_order(words: list[tuple[str, RunWord]]) -> list[tuple[str, RunWord]]:
    """Oldest first becomes: those that need a person, running ones, others; each newest first."""
    ranks = {**dict.fromkeys(NEEDS_A_PERSON, 0), "running": 1}
    newest_first = words[::-1]
    return sorted(newest_first, key=lambda one: ranks.get(one[1], 2))
