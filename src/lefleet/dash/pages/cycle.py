"""One cycle: the decision in a sentence, its evidence, the pairs behind it, and films of both
checkpoints side by side."""

import asyncio
from functools import partial

from fastapi import Request
from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from lefleet.actions.films import request_film
from lefleet.dash.pages import cycle_parts, run_parts
from lefleet.dash.pages.frame import (
    RESPONSE_S,
    OpenPage,
    Site,
    cycle_address,
    run_address,
)
from lefleet.dash.pages.parts import (
    LivePart,
    PlainText,
    Table,
    box,
    button,
    card,
    chip,
    command,
    link,
    terms,
)
from lefleet.queries.cycles import CycleDetail, StageLine, cycle_detail, stage_log
from lefleet.queries.paging import Page
from lefleet.queries.pairs import GatePair, pairs
from lefleet.queries.run import CheckpointLineage
from lefleet.queries.words import clock, duration
from lefleet.records import TaskPairs

_PAIRS = 50


def register(site: Site) -> None:
    @ui.page("/runs/{run}/cycles/{cycle}", response_timeout=RESPONSE_S)
    async def one_cycle(request: Request, run: str, cycle: int) -> None:
        view = OpenPage(site, request, "Runs", f"{run}, cycle {cycle}", about=run)
        page = _CyclePage(view, run, cycle)
        # Films are made without an event, so it looks every second.
        await view.follow(page.read, page.show, every_tick=True)


class _CyclePage:
    """The parts of the page. Which pair is shown is all that it remembers."""

    def __init__(self, view: OpenPage, run: str, cycle: int) -> None:
        self.view = view
        self._run = run
        self._cycle = cycle
        self._picked: tuple[str, int] | None = None
        self._differing = True
        self._offset = 0
        with view.main:
            self._decision = LivePart[CycleDetail](self._build_decision)
            self._evidence = LivePart[CycleDetail](cycle_parts.evidence)
            self._film = LivePart[GatePair | None](self._build_film)
            self._pairs = LivePart[tuple[Page[GatePair], tuple[str, int] | None]](
                lambda shown: self._build_pairs(*shown)
            )
            self._per_task = LivePart[dict[str, TaskPairs]](cycle_parts.per_task)
            self._data = LivePart[CheckpointLineage | None](_build_data)
            self._stages = LivePart[tuple[StageLine, ...]](self._build_stages)

    def read(self) -> tuple[CycleDetail, Page[GatePair]]:
        """In a worker thread."""
        detail = cycle_detail(self.view.site.reader, self._run, self._cycle)
        found = self._read_pairs(differing=self._differing)
        if not found.total and self._differing:
            found = self._read_pairs(differing=False)
        return detail, found

    def _read_pairs(self, *, differing: bool) -> Page[GatePair]:
        return pairs(
            self.view.ledger,
            self.view.workdir,
            self._run,
            self._cycle,
            differing=differing,
            offset=self._offset,
            limit=_PAIRS,
        )

    def show(self, read: tuple[CycleDetail, Page[GatePair]]) -> None:
        """The films are those of the picked pair: at first of one that was filmed."""
        detail, found = read
        shown = {(one.task, one.seed): one for one in found.items}
        if self._picked not in shown:
            filmed = [key for key, one in shown.items() if one.film and one.film.state == "made"]
            self._picked = next(iter([*filmed, *shown]), None)
        self._decision.show(detail)
        self._evidence.show(detail)
        self._film.show(shown.get(self._picked) if self._picked else None)
        self._pairs.show((found, self._picked))
        self._per_task.show(detail.per_task)
        self._data.show(detail.lineage)
        self._stages.show(detail.stages)

    async def _refresh(self) -> None:
        self.show(await asyncio.to_thread(self.read))

    def _build_decision(self, detail: CycleDetail) -> None:
        status = detail.status
        with box("div", "row apart"):
            with box("div", "row"):
                link(self._run, run_address(self._run))
                PlainText("h1", f"Cycle {self._cycle}")
                if status.decision:
                    chip(status.decision)
                if detail.lineage is not None:
                    link("Which data made it", f"#{run_parts.LINEAGE}", "small")
            _neighbours(self._run, self._cycle, detail.cycles)
        with card("Why" if status.decision else "Not decided yet"):
            # What a person said comes before what the gate showed, and that before its statistics.
            words = [one for one in (detail.verdict, status.why or "") if one]
            if status.answer is not None:
                words.reverse()
            if status.why:
                PlainText("p", words.pop(0), "why")
            elif detail.waits_for is not None:
                with box("p", "row"):
                    PlainText("span", "A person is asked.", "why")
                    link("Answer it", f"/approvals#question-{detail.waits_for}", "chip warn")
            else:
                PlainText("p", "The decision comes after the gate.", "why")
            for one in words:
                PlainText("p", one, "muted")
            if detail.needed:
                PlainText("p", detail.needed)
            if detail.settle:
                command(f"{detail.settle}{self.view.flag}")
            terms(status.why or "")
            for remark in status.diagnosis:
                PlainText("p", f"Look at {remark}")
            if (answer := status.answer) is not None:
                with box("div", "row"):
                    chip("approved" if answer.approved else "rejected")
                    reason = f": {answer.why}" if answer.why else ""
                    PlainText("span", f"by {answer.who}, {clock(answer.at)}{reason}")

    def _build_film(self, pair: GatePair | None) -> None:
        if pair is None:
            return
        with card(cycle_parts.pair_title(pair)):
            made = pair.film
            if made is None or made.state == "failed":
                if made is not None:
                    PlainText("p", f"✕ The film could not be made: {made.problem}")
                PlainText(
                    "p",
                    "Episodes are deterministic: the film is made by running both again, which "
                    "takes a few seconds.",
                    "muted",
                )
                if self.view.may("film"):
                    button("Film this pair", lambda: self._request(pair), "primary")
                return
            if not cycle_parts.is_filmed(made):
                PlainText("p", f"▶ Being filmed, asked for by {made.who} …").props["role"] = (
                    "status"
                )
                return
            cycle_parts.films(self._run, self._cycle, pair)

    async def _request(self, pair: GatePair) -> None:
        await self.view.act(
            "film",
            lambda person: request_film(
                self.view.workdir, self._run, self._cycle, pair.task, pair.seed, person.name
            ),
        )
        await self._refresh()

    def _build_pairs(self, found: Page[GatePair], picked: tuple[str, int] | None) -> None:
        if not found.total:
            return
        with card("The pairs behind it"):
            choice = ui.checkbox("Only pairs that differ: they decide", value=self._differing)
            choice.on_value_change(self._choose)
            table = Table(
                f"{len(found.items)} of {found.total} pairs, in the order in which they were "
                "judged. Both checkpoints began each from the same state.",
                ("pair", "task", "seed", "outcome", "candidate", "baseline", "film"),
            )
            for one in found.items:
                key = (one.task, one.seed)
                table.row(
                    str(one.number),
                    one.task,
                    str(one.seed),
                    partial(chip, one.outcome),
                    _steps(one.candidate.success, one.candidate.length),
                    _steps(one.baseline.success, one.baseline.length),
                    partial(self._watch_button, key, one),
                    classes="picked" if key == picked else "",
                )

            last = found.offset + len(found.items)
            with box("div", "row"):
                if found.offset:
                    button("← Earlier pairs", lambda: self._turn(max(0, found.offset - _PAIRS)))
                if last < found.total:
                    button("Later pairs →", lambda: self._turn(last))

    async def _turn(self, offset: int) -> None:
        self._offset = offset
        await self._refresh()

    def _watch_button(self, key: tuple[str, int], pair: GatePair) -> None:
        is_made = pair.film is not None and pair.film.state == "made"
        made = button("▶ Watch" if is_made else "Film it", lambda: self._pick(key, pair))
        made.classes("tiny").props["aria-label"] = (
            f"{'Watch' if is_made else 'Film'} {pair.task}, seed {pair.seed}"
        )

    async def _pick(self, key: tuple[str, int], pair: GatePair) -> None:
        self._picked = key
        if pair.film is None and self.view.may("film"):
            await self._request(pair)
        else:
            await self._refresh()

    async def _choose(self, chosen: ValueChangeEventArguments[bool | None]) -> None:
        self._differing, self._offset = bool(chosen.value), 0
        await self._refresh()

    def _build_stages(self, stages: tuple[StageLine, ...]) -> None:
        with card("Stages"):
            table = Table("What ran in this cycle.", ("stage", "state", "attempts", "took", "log"))
            for one in stages:
                error = f"{one.state}: {one.error}" if one.error else one.state
                table.row(
                    one.stage,
                    error,
                    str(one.attempts),
                    _took(one),
                    partial(self._log_button, one.stage),
                )

    def _log_button(self, stage: str) -> None:
        button("Log", lambda: self._show_log(stage)).classes("tiny")

    async def _show_log(self, stage: str) -> None:
        log = await asyncio.to_thread(
            stage_log, self.view.site.reader, self._run, self._cycle, stage
        )
        with self.view.dialog(f"Last lines of {log.file}", "wide") as dialog:
            PlainText("pre", "\n".join(log.lines) or "It is empty.", "log")
            button("Close", dialog.close)


def _took(stage: StageLine) -> str:
    time = duration(stage.seconds) if stage.seconds is not None else "running"
    waited = f", after {duration(stage.waited_s)} in the cluster's queue"
    return time + (waited if stage.waited_s >= 1 else "")


def _build_data(found: CheckpointLineage | None) -> None:
    if found is None:
        return
    with card("Which data made this checkpoint") as section:
        section.props["id"] = run_parts.LINEAGE
        run_parts.data_of(found)


def _neighbours(run: str, cycle: int, count: int) -> None:
    with box("nav", "row", aria_label="Other cycles"):
        if cycle:
            link(f"← Cycle {cycle - 1}", cycle_address(run, cycle - 1))
        if cycle + 1 < count:
            link(f"Cycle {cycle + 1} →", cycle_address(run, cycle + 1))


def _steps(success: bool, length: int) -> str:
    return f"{'✓' if success else '✕'} {length} steps" if length else "✓" if success else "✕"
