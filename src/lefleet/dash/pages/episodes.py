"""Recorded datasets, and the list of the episodes of one."""

from collections.abc import Sequence
from functools import partial
from urllib.parse import quote, urlencode

from fastapi import Request
from nicegui import ui

from lefleet.dash.pages.frame import RESPONSE_S, OpenPage, Site
from lefleet.dash.pages.parts import (
    LivePart,
    PlainText,
    Table,
    bar,
    box,
    card,
    chip,
    definitions,
    empty,
    link,
)
from lefleet.queries.datasets import DatasetCard, dataset, datasets
from lefleet.queries.episodes import EpisodeCard, LabelFilter, episodes
from lefleet.queries.labels import LabelCard
from lefleet.queries.paging import Page

_PAGE = 50
_FILTERS = {
    "": "all",
    "unlabelled": "without a label",
    "success": "successes",
    "failure": "failures",
}


def register(site: Site) -> None:
    @ui.page("/episodes", response_timeout=RESPONSE_S)
    async def all_datasets(request: Request) -> None:
        view = OpenPage(site, request, "Episodes", "Episodes")
        with view.main:
            PlainText("h1", "Episodes")
            rows = LivePart[list[DatasetCard]](lambda shown: _datasets(shown, view.flag))
        await view.follow(
            lambda: datasets(view.ledger, view.workdir, site.context.datasets), rows.show
        )

    @ui.page("/episodes/{name}", response_timeout=RESPONSE_S)
    async def one_dataset(
        request: Request, name: str, offset: int = 0, label: str = "", task: str = ""
    ) -> None:
        view = OpenPage(site, request, "Episodes", "Dataset")
        with view.main:
            page = LivePart[tuple[DatasetCard, Page[EpisodeCard]]](
                lambda shown: _dataset(*shown, EpisodeFilter(task, label))
            )

        def read() -> tuple[DatasetCard, Page[EpisodeCard]]:
            where = view.ledger, view.workdir, site.context.datasets, name
            found = episodes(
                *where, task=task, label=_label(label), offset=max(0, offset), limit=_PAGE
            )
            return dataset(*where), found

        await view.follow(read, page.show)


class EpisodeFilter:
    """Which episodes of a dataset a person goes through."""

    def __init__(self, task: str, label: str) -> None:
        self.task = task
        self.label = _label(label)

    def address(self, dataset_name: str, index: int | None = None, offset: int = 0) -> str:
        values = {"task": self.task, "label": self.label, "offset": offset or ""}
        query = urlencode({name: value for name, value in values.items() if value})
        tail = "" if index is None else f"/{index}"
        return f"/episodes/{quote(dataset_name, safe='')}{tail}{'?' if query else ''}{query}"


def _label(text: str) -> LabelFilter:
    known: dict[str, LabelFilter] = {
        "success": "success",
        "failure": "failure",
        "unlabelled": "unlabelled",
    }
    return known.get(text, "")


def _datasets(found: list[DatasetCard], flag: str) -> None:
    if not found:
        with card():
            empty(
                "No episodes yet",
                "Runs collect some; robots record others into the folder datasets.",
                commands=(f"lefleet demo{flag}",),
            )
        return
    with card():
        table = Table(
            "What robots recorded and what runs collected. Open one to watch and to label.",
            ("dataset", "episodes", "labelled", "tasks", "cameras", "used by"),
        )
        for one in found:
            table.row(
                partial(_dataset_name, one),
                str(one.episodes),
                partial(_labelled, one),
                _shortened(one.tasks),
                ", ".join(camera.name for camera in one.cameras) or "–",
                _uses(one),
            )


def _dataset_name(one: DatasetCard) -> None:
    link(one.name, EpisodeFilter("", "").address(one.id))
    if one.problem:
        PlainText("div", f"✕ {one.problem}", "small")


def _labelled(one: DatasetCard) -> None:
    known = one.successes + one.failures
    words = f"{known} of {one.episodes}"
    if one.episodes:
        bar(known / one.episodes, f"{words} labelled")
    PlainText("div", words, "muted small")


def _uses(one: DatasetCard) -> str:
    if not one.uses:
        return "no run yet"
    last = one.uses[-1]
    return f"{last.run}, cycle {last.cycle}, {last.stage}"


def _shortened(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return ", ".join(texts[:3]) + more


def _dataset(one: DatasetCard, found: Page[EpisodeCard], chosen: EpisodeFilter) -> None:
    with box("div", "row"):
        link("Episodes", "/episodes")
        PlainText("h1", one.name)
    with card():
        if one.problem:
            PlainText("p", f"✕ {one.problem}")
        definitions(
            [
                ("episodes", f"{one.episodes}, {one.frames} frames at {one.fps:g} Hz"),
                (
                    "labels",
                    f"{one.successes} successes, {one.failures} failures, {one.unlabelled} without",
                ),
                ("tasks", _shortened(one.tasks)),
                ("folder", one.root),
                ("used by", _uses(one)),
            ]
        )
    with card("Episodes"):
        with box("nav", "row", aria_label="Filter"):
            for name, words in _FILTERS.items():
                made = link(words, EpisodeFilter(chosen.task, name).address(one.id))
                if name == chosen.label:
                    made.props["aria-current"] = "true"
                    made.classes("chip busy")
        if not found.items:
            PlainText("p", "No episode fits.", "muted")
            return
        table = Table(
            f"{found.offset + 1} to {found.offset + len(found.items)} of {found.total}.",
            ("episode", "task", "length", "label", "actions from"),
        )
        for each in found.items:
            table.row(
                partial(_episode_link, one.id, each, chosen),
                each.task,
                f"{each.seconds:.1f} s, {each.length} frames",
                partial(label_chip, each.label),
                sources(each),
            )
        last = found.offset + len(found.items)
        with box("nav", "row", aria_label="More episodes"):
            if found.offset:
                link("← Earlier", chosen.address(one.id, offset=max(0, found.offset - _PAGE)))
            if last < found.total:
                link("Later →", chosen.address(one.id, offset=last))


def _episode_link(name: str, one: EpisodeCard, chosen: EpisodeFilter) -> None:
    link(f"Episode {one.index}", chosen.address(name, one.index))


def label_chip(label: LabelCard | None) -> None:
    if label is None or label.outcome == "unknown":
        PlainText("span", "no label", "muted")
        return
    chip(label.outcome)
    if label.who:
        PlainText("div", f"by {label.who}", "muted small")


def sources(one: EpisodeCard) -> str:
    if one.frames is None:
        return "–"
    counts = {
        "from a server": one.frames.server,
        "fallback": one.frames.fallback,
        "from a person or a policy on board": one.frames.other,
    }
    return ", ".join(f"{count} frames {name}" for name, count in counts.items() if count)
