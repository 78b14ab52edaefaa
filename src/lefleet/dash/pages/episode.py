"""One recorded episode: watch it, and say with two keys how it ended."""

import asyncio
from importlib.util import find_spec
from urllib.parse import quote
from uuid import uuid4

from fastapi import Request
from nicegui import ui
from nicegui.events import KeyEventArguments

from lefleet.actions.labels import LabelWord, label_episode
from lefleet.actions.people import Person
from lefleet.dash import charts
from lefleet.dash.pages.episodes import EpisodeFilter, label_chip, sources
from lefleet.dash.pages.frame import RESPONSE_S, OpenPage, Site, cycle_address
from lefleet.dash.pages.parts import (
    LivePart,
    PlainText,
    box,
    button,
    card,
    chart,
    command,
    definitions,
    film,
    link,
)
from lefleet.queries.datasets import place_of
from lefleet.queries.episodes import EpisodeCard, EpisodeDetail, episode
from lefleet.queries.labels import LabelCard, LabelEntry
from lefleet.queries.tracks import Tracks
from lefleet.queries.words import clock

_KEYS: dict[str, LabelWord] = {"s": "success", "f": "failure"}


def register(site: Site) -> None:
    @ui.page("/episodes/{name}/{index}", response_timeout=RESPONSE_S)
    async def one_episode(
        request: Request, name: str, index: int, label: str = "", task: str = ""
    ) -> None:
        view = OpenPage(site, request, "Episodes", f"Episode {index}")
        page = _EpisodePage(view, name, index, EpisodeFilter(task, label))
        await view.follow(page.read, page.show)


class _EpisodePage:
    """One episode: its films, its label, its tracks."""

    def __init__(self, view: OpenPage, name: str, index: int, chosen: EpisodeFilter) -> None:
        self._view = view
        self._name = name
        self._index = index
        self._chosen = chosen
        self._next: int | None = None
        self._previous: int | None = None
        self._keys: dict[LabelWord, str] = {}
        with view.main:
            self._head = LivePart[tuple[int | None, int | None, int, str]](self._build_head)
            with box("div", "columns"):
                self._label_part = LivePart[tuple[LabelCard | None, tuple[LabelEntry, ...]]](
                    self._build_label
                )
                self._films = LivePart[EpisodeCard](self._build_films)
            self._tracks = LivePart[Tracks](_build_tracks)
            self._about = LivePart[EpisodeDetail](_build_about)
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
        self._next, self._previous = detail.next, detail.previous
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
                PlainText("h1", f"Episode {self._index}")
                PlainText("span", f"of {count}", "muted")
            with box("nav", "row", aria_label="Other episodes"):
                if previous is not None:
                    link("← Previous", self._chosen.address(self._name, previous))
                if following is not None:
                    link("Next →", self._chosen.address(self._name, following))
        PlainText("p", task, "why")

    def _build_label(self, shown: tuple[LabelCard | None, tuple[LabelEntry, ...]]) -> None:
        label, said = shown
        is_labelled = label is not None and label.outcome != "unknown"
        with card("How did it end?"):
            with box("div", "row"):
                label_chip(label)
                if is_labelled and label is not None and label.at:
                    PlainText("span", clock(label.at), "muted small")
            if self._view.may("label"):
                with box("div", "row actions"):
                    button("✓ Success (S)", lambda: self._label("success"))
                    button("✕ Failure (F)", lambda: self._label("failure"))
                    if is_labelled:
                        button("Take back", lambda: self._label("undo"))
                PlainText("p", "Keys: S success, F failure, N next, P previous.", "muted small")
            if said:
                with box("details"):
                    PlainText("summary", f"Everything that was said ({len(said)})")
                    with box("ul"):
                        for one in said:
                            PlainText("li", _entry_words(one), "small")

    async def _label(self, outcome: LabelWord) -> None:
        context, view = self._view.site.context, self._view
        # The same one until it is answered: a key that bounces is one label.
        key = self._keys.setdefault(outcome, uuid4().hex)

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
            self._keys.pop(outcome, None)
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
        elif name == "p" and self._previous is not None:
            ui.navigate.to(self._chosen.address(self._name, self._previous))

    def _build_films(self, one: EpisodeCard) -> None:
        with card("Films"):
            if not one.videos:
                PlainText(
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
                        PlainText("figcaption", video.camera)


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
            PlainText("p", f"✕ {detail.problem}")
        rows = [("length", f"{detail.seconds:.1f} s, {detail.length} frames")]
        rows.append(("actions from", sources(detail)))
        definitions(rows)
        for one in detail.checkpoints:
            with box("p"):
                words = f"checkpoint {one.digest[:12]}, {one.frames} frames, server {one.server} "
                PlainText("span", words)
                if one.run and one.cycle is not None:
                    link(f"{one.run}, cycle {one.cycle}", cycle_address(one.run, one.cycle))
    with card("Replay in Rerun"):
        PlainText("p", "On the machine of the dashboard, with LeRobot's own program:", "muted")
        command(detail.replay)
        if find_spec("rerun") is None:
            PlainText("p", "Rerun is not installed here. It comes with:", "muted")
            command("pip install 'lerobot[viz]'")
