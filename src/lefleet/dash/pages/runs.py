"""Every run in a line: whether last night's runs are fine, and which one needs a person."""

import asyncio
import time
from functools import partial

from fastapi import Request
from nicegui import ui

from lefleet.actions.people import Person
from lefleet.actions.runs import Started, StartRequest, plan, start, templates
from lefleet.dash.pages.frame import RESPONSE_S, OpenPage, Site, run_address
from lefleet.dash.pages.parts import (
    LivePart,
    PlainText,
    Table,
    bar,
    box,
    button,
    card,
    chip,
    empty,
    link,
)
from lefleet.errors import LeFleetError
from lefleet.queries.runs import RunCard, RunList
from lefleet.queries.words import ago, budget

_PAGE = 20


def register(site: Site) -> None:
    @ui.page("/", response_timeout=RESPONSE_S)
    async def runs(request: Request, offset: int = 0) -> None:
        view = OpenPage(site, request, "Runs", "Runs")
        with view.main:
            with box("div", "row apart"):
                PlainText("h1", "Runs")
                if view.may("run"):
                    button("Start a run", lambda: _start_dialog(view))
            tiles = LivePart[tuple[int, int, int]](_tiles)
            rows = LivePart[tuple[RunList, int]](lambda shown: _rows(shown[0], view.flag))

        def show(found: RunList) -> None:
            tiles.show((found.needing_person, found.running, found.ended))
            # Ages change without an event, so the minute is a part of what is shown.
            rows.show((found, int(time.time() // 60)))

        first = max(0, offset)
        await view.follow(
            lambda: site.reader.runs(offset=first, limit=_PAGE), show, every_tick=True
        )


def _tiles(counts: tuple[int, int, int]) -> None:
    needing, running, ended = counts
    if not any(counts):
        return
    with box("div", "tiles"):
        with box("div", f"tile {'calls' if needing else ''}"):
            PlainText("strong", f"◆ {needing}" if needing else "✓ 0")
            verb = "needs you" if needing == 1 else "need you"
            PlainText("span", verb if needing else "need you: all is well")
        with box("div", "tile"):
            PlainText("strong", str(running))
            PlainText("span", "running")
        with box("div", "tile"):
            PlainText("strong", str(ended))
            PlainText("span", "ended")


def _rows(found: RunList, flag: str) -> None:
    if not found.total:
        with card():
            empty(
                "No runs yet",
                "A run collects, trains, evaluates and decides by itself. The demo takes two "
                "minutes on this machine; it appears here as soon as it has begun.",
                commands=(f"lefleet demo{flag}",),
            )
        return
    with card():
        table = Table(
            "Those that need you come first, then running ones, then the others.",
            ("run", "state", "what it does", "cycle", "best success", "budget", "last change"),
        )
        for one in found.items:
            table.row(
                partial(link, one.id, run_address(one.id)),
                partial(chip, one.state),
                partial(_doing, one),
                _cycle(one),
                partial(_success, one),
                partial(_budget, one),
                ago(one.changed_at),
            )
        _pager(found.offset, found.total)


def _doing(one: RunCard) -> None:
    PlainText("div", one.headline)
    if one.progress is not None:
        bar(one.progress, f"{one.stage} {one.progress:.0%} done")


def _cycle(one: RunCard) -> str:
    if one.cycle is None:
        return "–"
    return f"{one.cycle} ({one.cycle + 1} of {one.cycles})" if one.cycles else str(one.cycle)


def _success(one: RunCard) -> None:
    if one.success_rate is None or one.interval is None:
        PlainText("span", "none blessed yet", "muted")
        return
    low, high = one.interval
    with box("span"):
        PlainText("strong", f"{one.success_rate:.0%}")
        PlainText("div", f"{low:.0%} to {high:.0%}", "muted small")


def _budget(one: RunCard) -> None:
    """The budget that is used up most."""
    limited = {name: use for name, use in one.budgets.items() if use.limit}
    if not limited:
        return
    name, use = max(limited.items(), key=lambda item: item[1].used / item[1].limit)
    words = budget(name, use.used, use.limit)
    bar(use.used / use.limit, words)
    PlainText("div", words, "muted small")


def _pager(offset: int, total: int) -> None:
    if total <= _PAGE:
        return
    last = min(total, offset + _PAGE)
    with box("nav", "row apart", aria_label="More runs"):
        PlainText("span", f"{offset + 1} to {last} of {total}", "muted small")
        with box("span", "row"):
            if offset:
                link("← Newer", f"/?offset={max(0, offset - _PAGE)}")
            if last < total:
                link("Older →", f"/?offset={last}")


async def _start_dialog(view: OpenPage) -> None:
    """Start a run from a config that is here already."""
    try:
        known = await asyncio.to_thread(templates, view.workdir, view.site.context.configs)
    except LeFleetError as error:
        view.notify(str(error), is_problem=True)
        return
    configs = {one.id: one.config for one in known}
    with view.dialog("Start a run") as dialog:
        chosen = ui.select({one.id: one.name for one in known}, label="Config", value=known[0].id)
        name = ui.input("Name", value=time.strftime("run-%m%d-%H%M"))
        with box("div", "row"):
            cycles = ui.number("Cycles (empty: as in the config)", min=1, precision=0)
            promote = ui.select(
                {"": "as in the config", "auto": "by itself", "human": "ask a person"},
                label="Promotions",
                value="",
            )
        for field in (chosen, name, cycles, promote):
            field.props("outlined dense")
        with box("details"):
            PlainText("summary", "The config")
            shown = PlainText("pre", configs[chosen.value], "log")
        chosen.on_value_change(lambda: shown.set_text(configs[chosen.value]))
        planned = box("div")

        def request() -> StartRequest:
            return StartRequest(
                template=chosen.value,
                name=name.value.strip(),
                cycles=int(cycles.value) if cycles.value else None,
                promote=promote.value or None,
            )

        def planning(_: Person) -> list[str]:
            return plan(view.workdir, view.site.context.configs, request())

        def starting(person: Person) -> Started:
            return start(view.workdir, view.site.context.configs, request(), person.name)

        async def show_plan() -> None:
            if (lines := await view.act("run", planning)) is not None:
                planned.clear()
                with planned:
                    PlainText("pre", "\n".join(lines), "log")

        async def begin() -> None:
            if (begun := await view.act("run", starting)) is not None:
                ui.navigate.to(run_address(begun.run))

        with box("div", "row actions"):
            button("Start", begin, "primary")
            button("Plan only", show_plan)
            button("Cancel", dialog.close)
