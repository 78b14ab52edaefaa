"""What was learned: pages about tasks, policies and runs, to read, search and edit."""

import re
from functools import partial
from typing import NamedTuple
from urllib.parse import quote

from fastapi import Request
from nicegui import ui

from lefleet.actions.pages import edit_page
from lefleet.dash.pages.frame import RESPONSE_S, OpenPage, Site, run_address, stage_film
from lefleet.dash.pages.parts import (
    LivePart,
    PlainText,
    Table,
    box,
    button,
    card,
    chip,
    empty,
    link,
)
from lefleet.knowledge import Finding
from lefleet.knowledge.bundle import ABOUT, shipped
from lefleet.knowledge.search import PageEntry, SearchHit
from lefleet.queries import knowledge
from lefleet.queries.knowledge import KnowledgePage
from lefleet.queries.words import clock

_EXTRAS = ["tables", "fenced-code-blocks", "code-friendly"]
_FILM = re.compile(r"\]\(\.\./\.\./([\w.-]+)/cycle_(\d+)/(evaluate)/videos/([\w.-]+\.mp4)\)")
_RUN_FILE = re.compile(r"\]\(\.\./\.\./([\w.-]+)/[^()\s]*\)")
_TONES = {"contradicted": "rollback", "replicated": "success", "human-confirmed": "success"}


class _Listed(NamedTuple):
    pages: list[PageEntry]
    findings: list[Finding]
    hits: list[SearchHit] | None
    """None where nothing was searched for."""


def register(site: Site) -> None:
    @ui.page("/knowledge", response_timeout=RESPONSE_S)
    async def pages(request: Request, words: str = "") -> None:
        view = OpenPage(site, request, "Knowledge", "Knowledge")
        words = words[:200]
        with view.main:
            PlainText("h1", "Knowledge")
            _search_field(words)
            part = LivePart[_Listed](lambda shown: _list(shown, view.flag))
            with box("details", "card", id="about"):
                PlainText("summary", "How to read and edit the pages")
                ui.markdown(shipped(ABOUT).decode(), extras=_EXTRAS).classes("prose")

        def read() -> _Listed:
            return _Listed(
                knowledge.pages(view.workdir),
                knowledge.findings(view.ledger, view.workdir),
                knowledge.search(view.workdir, words) if words.strip() else None,
            )

        await view.follow(read, part.show)

    @ui.page("/knowledge/{kind}/{name}", response_timeout=RESPONSE_S)
    async def one_page(request: Request, kind: str, name: str) -> None:
        view = OpenPage(site, request, "Knowledge", name.removesuffix(".md"))
        with view.main:
            part = LivePart[KnowledgePage](partial(_page, view))
        path = f"{kind}/{name}"
        await view.follow(lambda: knowledge.page(view.ledger, view.workdir, path), part.show)


def _search_field(words: str) -> None:
    """A form that works like an address: a search can be sent to somebody."""
    field = ui.input("Search", value=words).props("outlined dense clearable")
    field.style("max-width: 24rem")
    field.on(
        "keydown.enter",
        lambda: ui.navigate.to(f"/knowledge?words={quote(field.value or '', safe='')}"),
    )


def _address(page: str) -> str:
    return f"/knowledge/{quote(page)}"


def _list(shown: _Listed, flag: str) -> None:
    if not shown.pages:
        with card():
            empty(
                "No pages yet",
                "After each cycle a run writes what it learned about tasks and policies here, with "
                "links to the evidence. What you write is never overwritten.",
                commands=(f"lefleet demo{flag}",),
            )
        return
    if shown.hits is not None:
        with card(f"{len(shown.hits)} found"):
            for hit in shown.hits:
                with box("div"):
                    link(hit.page, _address(hit.page))
                    PlainText("p", hit.text, "muted small")
    for one in shown.findings:
        with card("", "calls slim"), box("div"):
            with box("div", "row"):
                link(one.page, _address(one.page))
                PlainText("span", one.rule, "chip warn")
            PlainText("p", one.text)
            PlainText("p", knowledge.remedy(one), "muted small")
    with card():
        table = Table(
            "Pages, by what they are about.", ("page", "about", "status", "updated (UTC)")
        )
        for page in shown.pages:
            table.row(
                partial(link, page.name or page.page, _address(page.page)),
                page.type or "–",
                partial(_status, page.status or "unreadable"),
                page.updated[:16].replace("T", " "),
            )


def _status(status: str) -> None:
    chip(_TONES.get(status, ""), words=status)


def _page(view: OpenPage, page: KnowledgePage) -> None:
    with box("div", "row apart"):
        with box("div", "row"):
            link("Knowledge", "/knowledge")
            PlainText("h1", page.name or page.page)
            if page.status:
                _status(page.status)
        if view.may("edit"):
            button("Edit", lambda: _edit(view, page))
    if page.problem:
        with card("", "bad"):
            PlainText("p", f"✕ It cannot be read: {page.problem}")
    for one in page.findings:
        with card("", "calls slim"):
            PlainText("p", f"◆ {one.rule}: {one.text} {knowledge.remedy(one)}")
    with card():
        # Sanitised by NiceGUI; pictures from elsewhere and scripts are stopped by the CSP.
        ui.markdown(_with_addresses(page.body), extras=_EXTRAS).classes("prose")
    with card("Who wrote it"):
        theirs = ", ".join(page.human_sections)
        PlainText("p", f"LeFleet, {page.updated[:16].replace('T', ' ')} UTC.", "small")
        if theirs:
            PlainText(
                "p", f"Sections that a person changed and LeFleet leaves alone: {theirs}.", "small"
            )
        for edit in page.edits:
            PlainText("p", f"{clock(edit.at)}: edited by {edit.who}", "small")


def _with_addresses(body: str) -> str:
    """Links to files of the work folder become addresses of this server."""

    def film(found: re.Match[str]) -> str:
        return f"]({stage_film(found[1], int(found[2]), found[3], found[4])})"

    body = _FILM.sub(film, body)
    body = _RUN_FILE.sub(lambda found: f"]({run_address(found[1])})", body)
    return body.replace(f"](../{ABOUT})", "](/knowledge#about)")


async def _edit(view: OpenPage, page: KnowledgePage) -> None:
    with view.dialog(f"Edit {page.page}", "wide") as dialog:
        PlainText(
            "p",
            "Markdown. What you change in a marked section becomes yours: LeFleet no longer "
            "writes to it. Everything outside of them is yours anyway.",
            "muted small",
        )
        text = ui.textarea("Text", value=page.text).props("outlined rows=24")
        text.style("font-family: ui-monospace, monospace")

        async def save() -> None:
            saved = await view.act(
                "edit",
                lambda person: edit_page(
                    view.workdir, page.page, text.value or "", page.digest, person.name
                ),
                "Saved.",
            )
            if saved is not None:
                dialog.close()
                ui.navigate.reload()

        with box("div", "row actions"):
            button("Save", save, "primary")
            button("Cancel", dialog.close)
