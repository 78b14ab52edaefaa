"""Recorded datasets and their episodes: watch them, and say with two keys how each ended."""

import asyncio
from collections.abc import Sequence
from functools import partial
from urllib.parse import quote, urlencode
from uuid import uuid4

from fastapi import Request
from nicegui import ui
from nicegui.events import KeyEventArguments

from lefleet.actions.labels import LabelWord, label_episode
from lefleet.actions.people import Person
from lefleet.dash import charts
from lefleet.dash.pages.frame import Site, View, cycle_address
from lefleet.dash.pages.parts import (
    Part,
    Table,
    Text,
    bar,
    box,
    button,
    card,
    chart,
    chip,
    definitions,
    empty,
    film,
    link,
)
from lefleet.queries.datasets import DatasetCard, dataset, datasets, place_of
from lefleet.queries.episodes import EpisodeCard, EpisodeDetail, LabelFilter, episode, episodes
from lefleet.queries.labels import LabelCard, LabelEntry
from lefleet.queries.paging import Page
from lefleet.queries.tracks import Tracks
from lefleet.queries.words import clock

_PAGE = 50
_KEYS: dict[str, LabelWord] = {"s": "success", "f": "failure"}
_FILTERS = {
    "": "all",
    "unlabelled": "without a label",
    "success": "successes",
    "failure": "failures",
}


def register(site: Site) -> None:
    @ui.page("/episodes")
    async def all_datasets(request: Request) -> None:
        view = View(site, request, "Episodes", "Episodes")
        with view.main:
            Text("h1", "Episodes")
            rows = Part[list[DatasetCard]](_datasets)
        await view.follow(
            lambda: datasets(view.ledger, view.workdir, site.context.datasets), rows.show
        )

    @ui.page("/episodes/{name}")
    async def one_dataset(
        request: Request, name: str, offset: int = 0, label: str = "", task: str = ""
    ) -> None:
        view = View(site, request, "Episodes", "Dataset")
        with view.main:
            page = Part[tuple[DatasetCard, Page[EpisodeCard]]](
                lambda shown: _dataset(*shown, _Filter(task, label))
            )

        def read() -> tuple[DatasetCard, Page[EpisodeCard]]:
            where = view.ledger, view.workdir, site.context.datasets, name
            found = episodes(
                *where, task=task, label=_label(label), offset=max(0, offset), limit=_PAGE
            )
            return dataset(*where), found

        await view.follow(read, page.show, every_tick=True)

    @ui.page("/episodes/{name}/{index}")
    async def one_episode(
        request: Request, name: str, index: int, label: str = "", task: str = ""
    ) -> None:
        view = View(site, request, "Episodes", f"Episode {index}")
        page = _EpisodePage(view, name, index, _Filter(task, label))
        await view.follow(page.read, page.show, every_tick=True)


class _Filter:
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


def _datasets(found: list[DatasetCard]) -> None:
    if not found:
        with card():
            empty(
                "No episodes yet",
                "Runs collect some; robots record others into the folder datasets.",
                commands=("lefleet demo",),
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
    link(one.name, _Filter("", "").address(one.id))
    if one.problem:
        Text("div", f"✕ {one.problem}", "small")


def _labelled(one: DatasetCard) -> None:
    known = one.successes + one.failures
    words = f"{known} of {one.episodes}"
    if one.episodes:
        bar(known / one.episodes, f"{words} labelled")
    Text("div", words, "muted small")


def _uses(one: DatasetCard) -> str:
    if not one.uses:
        return "no run yet"
    last = one.uses[-1]
    return f"{last.run}, cycle {last.cycle}, {last.stage}"


def _shortened(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return ", ".join(texts[:3]) + more


def _dataset(one: DatasetCard, found: Page[EpisodeCard], chosen: _Filter) -> None:
    with box("div", "row"):
        link("Episodes", "/episodes")
        Text("h1", one.name)
    with card():
        if one.problem:
            Text("p", f"✕ {one.problem}")
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
                made = link(words, _Filter(chosen.task, name).address(one.id))
                if name == chosen.label:
                    made.props["aria-current"] = "true"
                    made.classes("chip busy")
        if not found.items:
            Text("p", "No episode fits.", "muted")
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
                partial(_label_chip, each.label),
                _sources(each),
            )
        last = found.offset + len(found.items)
        with box("nav", "row", aria_label="More episodes"):
            if found.offset:
                link("← Earlier", chosen.address(one.id, offset=max(0, found.offset - _PAGE)))
            if last < found.total:
                link("Later →", chosen.address(one.id, offset=last))


def _episode_link(name: str, one: EpisodeCard, chosen: _Filter) -> None:
    link(f"Episode {one.index}", chosen.address(name, one.index))


def _label_chip(label: LabelCard | None) -> None:
    if label is None or label.outcome == "unknown":
        Text("span", "no label", "muted")
        return
    chip(label.outcome)
    if label.who:
        Text("div", f"by {label.who}", "muted small")


def _sources(one: EpisodeCard) -> str:
    if one.frames is None:
        return "–"
    counts = {
        "from a server": one.frames.server,
        "fallback": one.frames.fallback,
        "from a person or a policy on board": one.frames.other,
    }
    return ", ".join(f"{count} frames {name}" for name, count in counts.items() if count)


class _EpisodePage:
    """One episode: its films, its label, its tracks."""

    def __init__(self, view: View, name: str, index: int, chosen: _Filter) -> None:
        self._view = view
        self._name = name
        self._index = index
        self._chosen = chosen
        self._next: int | None = None
        with view.main:
            self._head = Part[tuple[int | None, int | None, int, str]](self._build_head)
            self._label_part = Part[tuple[LabelCard | None, tuple[LabelEntry, ...]]](
                self._build_label
            )
            self._films = Part[EpisodeCard](self._build_films)
            self._tracks = Part[Tracks](_build_tracks)
            self._about = Part[EpisodeDetail](_build_about)
        ui.keyboard(on_key=self._on_key, repeating=False)

    def read(self) -> EpisodeDetail:
        return episode(
            self._view.ledger,
            self._view.workdir,
            self._view.site.context.datasets,
            self._name,
            self._index,
            task=self._chosen.task,
            label=self._chosen.label,
        )

    def show(self, detail: EpisodeDetail) -> None:
        self._next = detail.next
        self._head.show((detail.previous, detail.next, detail.episodes, detail.task))
        self._label_part.show((detail.label, detail.history))
        self._films.show(_card_of(detail))
        self._tracks.show(detail.tracks)
        self._about.show(detail)

    def _build_head(self, shown: tuple[int | None, int | None, int, str]) -> None:
        previous, following, count, task = shown
        with box("div", "row apart"):
            with box("div", "row"):
                link("All episodes of the dataset", self._chosen.address(self._name))
                Text("h1", f"Episode {self._index}")
                Text("span", f"of {count}", "muted")
            with box("nav", "row", aria_label="Other episodes"):
                if previous is not None:
                    link("← Previous", self._chosen.address(self._name, previous))
                if following is not None:
                    link("Next →", self._chosen.address(self._name, following))
        Text("p", task, "why")

    def _build_label(self, shown: tuple[LabelCard | None, tuple[LabelEntry, ...]]) -> None:
        label, said = shown
        with card("How did it end?"):
            with box("div", "row"):
                _label_chip(label)
                if label is not None and label.at:
                    Text("span", clock(label.at), "muted small")
            if self._view.may("label"):
                with box("div", "row actions"):
                    button("✓ Success (S)", lambda: self._label("success"), "primary")
                    button("✕ Failure (F)", lambda: self._label("failure"), "danger")
                    if label is not None:
                        button("Take back", lambda: self._label("undo"))
                Text("p", "Keys: S success, F failure, N next, P previous.", "muted small")
            if said:
                with box("details"):
                    Text("summary", f"Everything that was said ({len(said)})")
                    with box("ul"):
                        for one in said:
                            Text("li", _entry_words(one), "small")

    async def _label(self, outcome: LabelWord) -> None:
        context, view = self._view.site.context, self._view
        key = uuid4().hex

        def act(person: Person) -> bool:
            place = place_of(view.ledger, view.workdir, context.datasets, self._name)
            label_episode(
                view.workdir,
                place.root,
                self._index,
                outcome,
                source="page",
                who=person.name,
                key=key,
            )
            return True

        if await view.act("label", act, f"Episode {self._index}: {outcome}"):
            self.show(await asyncio.to_thread(self.read))

    async def _on_key(self, event: KeyEventArguments) -> None:
        pressed = event.modifiers
        is_plain = not (pressed.alt or pressed.ctrl or pressed.meta)
        if not event.action.keydown or not is_plain:
            return
        name = event.key.name.lower()
        if name in _KEYS and self._view.may("label"):
            await self._label(_KEYS[name])
        elif name == "n" and self._next is not None:
            ui.navigate.to(self._chosen.address(self._name, self._next))
        elif name == "p" and self._index > 0:
            ui.navigate.to(self._chosen.address(self._name, self._index - 1))

    def _build_films(self, one: EpisodeCard) -> None:
        with card("Films"):
            if not one.videos:
                Text(
                    "p",
                    "No camera was recorded; below is what the robot measured and did.",
                    "muted",
                )
                return
            with box("div", "films"):
                for video in one.videos:
                    camera = quote(video.camera, safe="")
                    address = f"/media/episodes/{self._name}/{self._index}/{camera}"
                    with box("figure"):
                        film(
                            address,
                            f"Episode {self._index}, camera {video.camera}",
                            from_s=video.from_s,
                            to_s=video.to_s,
                        )
                        Text("figcaption", video.camera)


def _card_of(detail: EpisodeDetail) -> EpisodeCard:
    """What the films depend on: a label must not start them again."""
    names = EpisodeCard.__struct_fields__
    values = {name: getattr(detail, name) for name in names}
    return EpisodeCard(**{**values, "label": None, "frames": None})


def _entry_words(one: LabelEntry) -> str:
    when = clock(one.at) if one.at else "at an unknown time"
    what = "taken back" if one.is_undo else one.outcome
    who = f" by {one.who}" if one.who else ""
    note = f": {one.note}" if one.note else ""
    return f"{when}: {what}{who} ({one.source}){note}{', counts' if one.counts else ''}"


def _build_tracks(tracks: Tracks) -> None:
    if not tracks.tracks:
        return
    with box("div", "columns"):
        for kind, title in (("state", "State"), ("action", "Action")):
            columns = {one.name: one.values for one in tracks.tracks if one.kind == kind}
            if columns:
                with card(title):
                    chart(
                        charts.tracks(tracks.seconds, columns),
                        f"{title} over time: {', '.join(columns)}",
                    )


def _build_about(detail: EpisodeDetail) -> None:
    with card("Where its actions came from"):
        if detail.problem:
            Text("p", f"✕ {detail.problem}")
        rows = [("length", f"{detail.seconds:.1f} s, {detail.length} frames")]
        rows.append(("actions from", _sources(detail)))
        definitions(rows)
        for one in detail.checkpoints:
            with box("p"):
                words = f"checkpoint {one.digest[:12]}, {one.frames} frames, server {one.server} "
                Text("span", words)
                if one.run and one.cycle is not None:
                    link(f"{one.run}, cycle {one.cycle}", cycle_address(one.run, one.cycle))
