"""One run: where it is, why it stands still, how success rose, and what every decision rests on."""

import asyncio
from typing import NamedTuple

from fastapi import Request
from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from lefleet.actions import runs as run_actions
from lefleet.dash import charts
from lefleet.dash.pages import cycle_parts, run_parts
from lefleet.dash.pages.frame import RESPONSE_S, OpenPage, Site, cycle_address, run_address
from lefleet.dash.pages.parts import (
    LivePart,
    PlainText,
    Table,
    box,
    button,
    card,
    chart,
    chip,
    command,
    link,
)
from lefleet.queries.cycles import CycleDetail, cycle_detail
from lefleet.queries.events import EventGroup, EventPage, events
from lefleet.queries.pairs import GatePair, pairs
from lefleet.queries.run import (
    CheckpointLineage,
    EvaluationFilm,
    FlowStep,
    RunDetail,
    TrainingCurve,
    run_detail,
)
from lefleet.queries.status import BudgetUse, CycleStatus, RunWord
from lefleet.queries.trouble import Trouble
from lefleet.queries.words import clock, duration, hours_by_device

_GROUPS: dict[EventGroup, str] = {
    "all": "everything",
    "decisions": "proposals and decisions",
    "people": "people",
    "stages": "stages",
    "problems": "problems",
}
_EVENTS = 25


def register(site: Site) -> None:
    @ui.page("/runs/{run}", response_timeout=RESPONSE_S)
    async def one_run(request: Request, run: str) -> None:
        page = _RunPage(OpenPage(site, request, "Runs", run, about=run), run)
        await page.view.follow(page.read, page.show, every_tick=True)


class _LastGate(NamedTuple):
    """The newest gate of a run, and a filmed pair of it."""

    detail: CycleDetail
    pair: GatePair | None


class _RunPage:
    """The parts of the page; each is built again only when what it shows has changed."""

    def __init__(self, view: OpenPage, run: str) -> None:
        self.view = view
        self._run = run
        self._last_gate: tuple[float, _LastGate | None] = (0.0, None)
        """With the time of the event that it was read after: to work out its bounds takes longer
        than the rest."""
        with view.main:
            self._head = LivePart[tuple[RunWord, str | None]](self._build_head)
            self._doing = LivePart[tuple[RunWord, str, str]](_build_doing)
            self._trouble = LivePart[Trouble | None](self._build_trouble)
            self._flow = LivePart[tuple[str, tuple[FlowStep, ...]]](
                lambda shown: run_parts.flow(*shown)
            )
            self._decisions = LivePart[tuple[tuple[CycleStatus, ...], str | None]](
                lambda shown: run_parts.decisions(run, *shown)
            )
            self._gate = LivePart[_LastGate | None](self._build_gate)
            with box("div", "columns"):
                self._tasks = LivePart[tuple[CycleStatus, ...]](run_parts.tasks)
                self._lineage = LivePart[CheckpointLineage | None](run_parts.lineage)
            self._films = LivePart[tuple[EvaluationFilm, ...]](
                lambda films: run_parts.films(run, films)
            )
            with box("div", "columns"):
                self._training = LivePart[tuple[TrainingCurve, ...]](run_parts.training)
                self._budgets = LivePart[tuple[dict[str, BudgetUse], str]](run_parts.budgets)
            self._log = _EventLog(view, run)
            self._config = LivePart[str](run_parts.config)

    def read(self) -> tuple[RunDetail, _LastGate | None]:
        """In a worker thread."""
        detail = run_detail(self.view.site.reader, self._run)
        at, is_running = detail.card.changed_at, detail.card.stage == "gate"
        if is_running or self._last_gate[0] != at:
            self._last_gate = at, self._read_gate(detail, is_running=is_running)
        return detail, self._last_gate[1]

    def _read_gate(self, detail: RunDetail, *, is_running: bool) -> _LastGate | None:
        made = [one.index for one in detail.status.cycles if "gate" in one.stages]
        if is_running and detail.card.cycle is not None:
            made.append(detail.card.cycle)
        if not made:
            return None
        found = cycle_detail(self.view.site.reader, self._run, made[-1])
        if found.evidence is None:
            return None
        judged = pairs(self.view.ledger, self.view.workdir, self._run, made[-1], differing=True)
        filmed = (one for one in judged.items if cycle_parts.is_filmed(one.film))
        return _LastGate(found, next(filmed, None))

    def show(self, read: tuple[RunDetail, _LastGate | None]) -> None:
        detail, gate = read
        one, status = detail.card, detail.status
        ran = duration(one.elapsed_s) if one.elapsed_s is not None else ""
        self._head.show((one.state, one.origin))
        self._doing.show((one.state, one.headline, ran))
        self._trouble.show(detail.trouble)
        self._flow.show((f"Cycle {one.cycle}: the loop", detail.flow))
        self._decisions.show((status.cycles, status.blessed))
        self._gate.show(gate)
        self._tasks.show(status.cycles)
        self._training.show(detail.curves)
        self._lineage.show(detail.lineage)
        self._films.show(detail.films)
        uses = {
            name: BudgetUse(used=float(f"{use.used:.3g}"), limit=use.limit)
            for name, use in status.budgets.items()
        }
        self._budgets.show((uses, hours_by_device(status.device_hours)))
        self._config.show(detail.config)
        self._log.changed(detail.card.changed_at)

    def _build_head(self, shown: tuple[RunWord, str | None]) -> None:
        state, origin = shown
        with box("div", "row apart"):
            with box("div", "row"):
                PlainText("h1", self._run)
                chip(state)
                if origin:
                    PlainText("span", f"started from {origin}", "muted")
            with box("div", "row actions"):
                may_run = self.view.may("run")
                if may_run and state in ("running", "waiting"):
                    button("Stop", self._ask_stop, "danger")
                if may_run and state in ("stopped", "interrupted"):
                    button("Resume", self._resume, "primary")
                link("Report for a colleague", f"{run_address(self._run)}/report", "small")

    def _build_trouble(self, trouble: Trouble | None) -> None:
        if trouble is None:
            return
        is_bad = trouble.kind in ("failed", "denied", "interrupted", "unreadable")
        with card("", "bad" if is_bad else "calls" if trouble.kind == "answer" else ""):
            PlainText("h2", f"{'✕' if is_bad else '◆'} {trouble.title}")
            PlainText("p", trouble.text, "why")
            if trouble.log:
                PlainText("h3", f"Last lines of {trouble.log_file}")
                PlainText("pre", "\n".join(trouble.log), "log")
            if trouble.remedy:
                PlainText("p", trouble.remedy)
            with box("div", "row actions"):
                if trouble.approval is not None:
                    link("Answer it", f"/approvals#question-{trouble.approval}", "chip warn")
                elif trouble.may_resume and self.view.may("run"):
                    button("Resume", self._resume, "primary")
                if trouble.command:
                    command(f"{trouble.command}{self.view.flag}")

    def _build_gate(self, gate: _LastGate | None) -> None:
        """Why, at a glance; all of it is on the cycle's page."""
        if gate is None or gate.detail.evidence is None:
            return
        found, cycle = gate.detail, gate.detail.status.index
        with card(f"The last gate: cycle {cycle}"):
            PlainText("p", found.verdict, "why")
            if found.needed:
                PlainText("p", found.needed)
            with box("div", "columns"):
                with box("div", "stack"):
                    chart(charts.evidence(gate.detail.evidence), found.verdict)
                    link("More about this gate", cycle_address(self._run, cycle))
                if gate.pair is not None:
                    with box("div"):
                        PlainText("h3", cycle_parts.pair_title(gate.pair))
                        cycle_parts.films(self._run, cycle, gate.pair)

    async def _resume(self) -> None:
        await self.view.act(
            "run",
            lambda person: run_actions.resume(self.view.workdir, self._run, person.name),
            f"{self._run} continues.",
        )

    async def _ask_stop(self) -> None:
        with self.view.dialog(f"Stop {self._run}?") as dialog:
            PlainText(
                "p", "Its stage is ended now; a resumed run continues it from what is on disk."
            )
            with box("div", "row actions"):
                button("Stop it", lambda: dialog.submit(True), "danger")
                button("Let it run", lambda: dialog.submit(False))
        if await dialog:
            await self.view.act(
                "run",
                lambda person: run_actions.stop(self.view.workdir, self._run, person.name),
                "Stopping: the stage is being ended …",
            )


def _build_doing(shown: tuple[RunWord, str, str]) -> None:
    """What changes every second: apart from the buttons, which must stay under the finger."""
    state, headline, ran = shown
    words = f"Running for {ran}: {headline}" if state == "running" else f"Ran {ran}."
    PlainText("p", words if ran else "", "muted")


class _EventLog:
    """What happened, newest first, with a filter; older ones on request."""

    def __init__(self, view: OpenPage, run: str) -> None:
        self._view = view
        self._run = run
        self._group: EventGroup = "all"
        self._before: int | None = None
        self._changed_at = 0.0
        self._card = card("What happened")
        self._card.set_visibility(False)
        with self._card:
            choice = ui.select(_GROUPS, value="all", label="Show").props("outlined dense")
            choice.style("max-width: 18rem").on_value_change(self._choose)
            self._part = LivePart[EventPage](self._build)

    def changed(self, at: float) -> None:
        """The newest event is of this time."""
        self._card.set_visibility(True)
        if at != self._changed_at and self._before is None:
            self._changed_at = at
            ui.timer(0.0, self._load, once=True)

    async def _choose(self, chosen: ValueChangeEventArguments[EventGroup]) -> None:
        self._group, self._before = chosen.value, None
        await self._load()

    async def _turn(self, before: int | None) -> None:
        self._before = before
        await self._load()

    async def _load(self) -> None:
        ledger, group, before = self._view.ledger, self._group, self._before
        self._part.show(
            await asyncio.to_thread(
                events, ledger, self._run, group=group, before=before, limit=_EVENTS
            )
        )

    def _build(self, page: EventPage) -> None:
        if not page.items:
            PlainText("p", "Nothing of this kind has happened.", "muted")
            return
        table = Table("Newest first.", ("time", "cycle", "what"), "")
        for one in page.items:
            table.row(
                clock(one.at, with_seconds=True),
                "" if one.cycle is None else str(one.cycle),
                f"✕ {one.text}" if one.is_problem else one.text,
            )
        with box("div", "row"):
            if self._before is not None:
                button("← Newest events", lambda: self._turn(None))
            if page.next_before is not None:
                button("Older events →", lambda: self._turn(page.next_before))
